/* Memory that the CPU may not touch, see fab_devmem.h. */
#include "fab_devmem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fab_config.h"
#include "fab_cuda.h"

/* What the kernel calls the files of such memory */
static const char *const devmem_names[] = {"/memfd:", "/dmabuf:", "anon_inode:dmabuf"};

static int devmem_is_name(const char *name)
{
    size_t i;

    for (i = 0; i < (sizeof(devmem_names) / sizeof(devmem_names[0])); ++i) {
        if (strncmp(name, devmem_names[i], strlen(devmem_names[i])) == 0) {
            return 1;
        }
    }

    return 0;
}

static int devmem_is_memory(int fd)
{
    char path[32], name[256];
    ssize_t length;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    length = readlink(path, name, sizeof(name) - 1);
    if (length <= 0) {
        return 0;
    }

    name[length] = '\0';
    return devmem_is_name(name);
}

int fab_devmem_map(struct fab_devmem *mem, int fd, uint64_t offset, size_t length,
                   void **addr)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin      = offset & ~(page - 1);
    off_t size;
    void *base;

    memset(mem, 0, sizeof(*mem));
    if (fcntl(fd, F_GETFD) < 0) {
        return EBADF;
    }

    size = devmem_is_memory(fd) ? lseek(fd, 0, SEEK_END) : -1;
    if ((size < 0) || (length == 0) || (length > (uint64_t)size) ||
        (offset > ((uint64_t)size - length))) {
        return EINVAL;
    }

    if (fab_cuda_is_device(*addr, length)) {
        mem->is_cuda = 1;
        return 0;
    }

    base = mmap(NULL, (size_t)(offset - begin) + length, PROT_READ | PROT_WRITE,
                MAP_SHARED, fd, (off_t)begin);
    if (base == MAP_FAILED) {
        return (errno == ENOMEM) ? ENOMEM : EINVAL;
    }

    mem->base   = base;
    mem->length = (size_t)(offset - begin) + length;
    *addr       = (char*)base + (offset - begin);
    return 0;
}

void fab_devmem_unmap(struct fab_devmem *mem)
{
    if (mem->base != NULL) {
        munmap(mem->base, mem->length);
        mem->base = NULL;
    }
}

/* The inode of the memory at these addresses, and where they begin in it */
static int devmem_lookup(uintptr_t address, size_t length, uint64_t *inode,
                         uint64_t *offset)
{
    uintptr_t begin, end;
    char line[512], prot[8], name[256];
    FILE *maps;
    int ret = ENOENT;

    maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) {
        return errno;
    }

    while (fgets(line, sizeof(line), maps) != NULL) {
        name[0] = '\0';
        if ((sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %" SCNx64 " %*s %" SCNu64
                    " %255s", &begin, &end, prot, offset, inode, name) >= 5) &&
            (address >= begin) && (address < end)) {
            if ((strcmp(prot, "---s") == 0) && devmem_is_name(name) &&
                (length <= (end - address))) {
                *offset += address - begin;
                ret      = 0;
            }
            break;
        }
    }

    fclose(maps);
    return ret;
}

/* A descriptor of this process with this inode, or -1 */
static int devmem_descriptor(uint64_t inode)
{
    struct dirent *entry;
    struct stat st;
    int found = -1;
    int fd;
    DIR *dir;

    dir = opendir("/proc/self/fd");
    while ((dir != NULL) && (found < 0) && ((entry = readdir(dir)) != NULL)) {
        fd = atoi(entry->d_name);
        if ((entry->d_name[0] != '.') && (fd != dirfd(dir)) && devmem_is_memory(fd) &&
            (fstat(fd, &st) == 0) && (st.st_ino == inode)) {
            found = fd;
        }
    }

    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

int fab_devmem_find(struct fab_devmem *mem, size_t length, void **addr)
{
    uint64_t inode, offset;
    int ret;

    memset(mem, 0, sizeof(*mem));
    if (fab_cuda_is_device(*addr, length)) {
        if (!fab_cuda_has_pages(*addr)) {
            fab_log("GPU memory at %p: its driver does not give its pages", *addr);
            return ENOENT;
        }
        mem->is_cuda = 1;
        return 0;
    }

    ret = devmem_lookup((uintptr_t)*addr, length, &inode, &offset);
    if (ret != 0) {
        return ret;
    }

    ret = fab_devmem_map(mem, devmem_descriptor(inode), offset, length, addr);
    return (ret == EBADF) ? EINVAL : ret;
}
