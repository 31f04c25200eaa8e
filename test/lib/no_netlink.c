/* no_netlink COMMAND...: run it with a seccomp filter that refuses netlink sockets, as a
 * container runtime's may. Status 77: the kernel has no such filters. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(_field) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, _field))
#define SKIP_UNLESS(_value, _count) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (_value), 0, (_count))

int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        LOAD(nr),
        SKIP_UNLESS(SYS_socket, 3),
        LOAD(args[0]),
        SKIP_UNLESS(AF_NETLINK, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    if (argc < 2) {
        return 2;
    }

    if ((prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ||
        (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)) {
        perror("seccomp");
        return 77;
    }

    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
