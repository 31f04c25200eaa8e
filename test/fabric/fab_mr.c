/*
 * Memory regions and protection domains. May call libc, fab_world,
 * fab_devmem, fab_violations.
 */
#include "fab_mr.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fab_config.h"
#include "fab_ctx.h"
#include "fab_devmem.h"
#include "fab_violations.h"

enum {
    KEY_TAG_BITS = 8
};

/* Must be known to whoever registers with them; the rest is optional */
#define FAB_MR_FLAGS \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | \
     IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

/* What the caller gets */
struct fab_mr_handle {
    struct ibv_mr     ibv; /* first */
    struct fab_devmem devmem;
    uint64_t          pinned; /* bytes that count against the limit */
};

#define fab_mr_handle_of(_ibv_mr) ((struct fab_mr_handle*)(_ibv_mr))

struct ibv_pd *fab_pd_alloc(struct ibv_context *context)
{
    struct fab_pd_handle *pd = calloc(1, sizeof(*pd));

    if (pd != NULL) {
        pd->ibv.context = context;
        pd->id = __atomic_add_fetch(&fab_world->next_pd, 1, __ATOMIC_RELAXED);
        pd->ibv.handle = pd->id;
    }
    return (pd == NULL) ? NULL : &pd->ibv;
}

int fab_pd_dealloc(struct ibv_pd *pd)
{
    if (__atomic_load_n(&fab_pd_of(pd)->users, __ATOMIC_ACQUIRE) != 0) {
        return EBUSY;
    }

    free(fab_pd_of(pd));
    return 0;
}

static struct fab_mr *fab_mr_slot(uint32_t slot)
{
    return fab_ptr(struct fab_mr, fab_world->mrs) + slot;
}

/* Whether the kernel can be asked for pages: older ones say EINVAL to it */
static int fab_mr_can_populate(void)
{
    static int known; /* 1: no, 2: yes */
    void *page;

    if (known == 0) {
        page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            return 0;
        }
        known = 1 + (madvise(page, 4096, MADV_POPULATE_READ) == 0);
        munmap(page, 4096);
    }
    return known == 2;
}

/*
 * As pinning the pages would find out: with no mapping there are none, and some
 * are not for writing. The first page stands for all when it comes to writing.
 */
static int fab_mr_is_mapped(void *addr, size_t length, int is_write)
{
    const uintptr_t page = 4096;
    uintptr_t begin      = (uintptr_t)addr & ~(page - 1);
    uintptr_t end        = ((uintptr_t)addr + length + page - 1) & ~(page - 1);

    if (length == 0) {
        return 1;
    }

    if ((msync((void*)begin, end - begin, MS_ASYNC) != 0) && (errno == ENOMEM)) {
        return 0;
    }
    if (!fab_mr_can_populate()) {
        return 1;
    }
    /* EINVAL: the mapping does not allow it */
    return (madvise((void*)begin, page, is_write ? MADV_POPULATE_WRITE :
                                                   MADV_POPULATE_READ) == 0) ||
           (errno != EINVAL);
}

/* Whether the kernel would count pinned memory against the limit */
static int fab_mr_is_limited(uint64_t *limit)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    struct rlimit rlim;

    if ((getrlimit(RLIMIT_MEMLOCK, &rlim) != 0) ||
        (rlim.rlim_cur == RLIM_INFINITY)) {
        return 0;
    }

    *limit = rlim.rlim_cur;
    return (syscall(SYS_capget, &head, data) == 0) &&
           !(data[0].effective & (1u << CAP_IPC_LOCK));
}

/* Count memory as pinned, or not any more. @return 0 beyond the limit. */
static int fab_mr_account(uint64_t length, int sign)
{
    static uint64_t pinned;
    uint64_t limit;

    if (sign < 0) {
        __atomic_fetch_sub(&pinned, length, __ATOMIC_RELAXED);
        return 1;
    }

    if ((__atomic_add_fetch(&pinned, length, __ATOMIC_RELAXED) > 65536) &&
        fab_mr_is_limited(&limit) &&
        (__atomic_load_n(&pinned, __ATOMIC_RELAXED) > limit)) {
        __atomic_fetch_sub(&pinned, length, __ATOMIC_RELAXED);
        return 0;
    }
    return 1;
}

static int fab_mr_check(uintptr_t addr, size_t length, uint64_t iova,
                        unsigned access)
{
    if ((access & ~FAB_MR_FLAGS) != 0) {
        return EOPNOTSUPP;
    }

    if (((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0) &&
        ((access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
        return EINVAL;
    }

    if (((addr + length) < addr) || ((iova + length) < iova)) {
        return EINVAL;
    }
    return 0;
}

/* A free slot, in turn, and its new key; with the lock held */
static struct fab_mr *fab_mr_take(uint32_t *key)
{
    struct fab_mr *mr;
    uint32_t i, slot;

    for (i = 0; i < FAB_MR_SLOTS; ++i) {
        fab_world->next_mr = (fab_world->next_mr + 1) % FAB_MR_SLOTS;
        slot               = fab_world->next_mr;
        mr                 = fab_mr_slot(slot);
        if ((slot != 0) && !mr->taken) {
            mr->taken = 1;
            mr->proc  = fab_world_self;
            mr->tag   = (mr->tag + 1) & ((1 << KEY_TAG_BITS) - 1);
            if (slot > fab_world->mr_high) {
                fab_world->mr_high = slot;
            }
            *key      = (slot << KEY_TAG_BITS) | mr->tag;
            return mr;
        }
    }
    return NULL;
}

/* Give a checked region its keys; 0, or an errno */
static int fab_mr_make(struct ibv_pd *pd, struct fab_mr_handle *handle, void *addr,
                       size_t length, uint64_t iova, unsigned access)
{
    struct ibv_mr *ibv = &handle->ibv;
    struct fab_mr *mr;
    uint32_t key;

    fab_lock_take(&fab_world->mr_lock);
    mr = fab_mr_take(&key);
    fab_lock_drop(&fab_world->mr_lock);
    if (mr == NULL) {
        return ENOMEM;
    }

    mr->pd      = fab_pd_of(pd)->id;
    mr->dev     = fab_context_dev(pd->context);
    mr->access  = access;
    mr->iova    = iova;
    mr->addr    = (uintptr_t)addr;
    mr->length  = length;
    mr->is_cuda = (uint32_t)handle->devmem.is_cuda;
    mr->user    = (uintptr_t)ibv;
    __atomic_store_n(&mr->key, key, __ATOMIC_RELEASE);

    ibv->context = pd->context;
    ibv->pd      = pd;
    ibv->addr    = addr;
    ibv->length  = length;
    ibv->handle  = key;
    ibv->lkey    = key;
    ibv->rkey    = key;
    __atomic_fetch_add(&fab_pd_of(pd)->users, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Memory by its address: device memory where a driver offers it, else what is mapped,
 * which is pinned */
static int fab_mr_pin_pages(struct fab_mr_handle *handle, void **addr, size_t length,
                            unsigned access)
{
    int ret = ENOENT;

    if (fab_config.peer_mem) {
        ret = fab_devmem_find(&handle->devmem, length, addr);
    }
    if (ret != ENOENT) {
        return ret;
    }

    if (!fab_mr_is_mapped(*addr, length, (access & IBV_ACCESS_LOCAL_WRITE))) {
        return EFAULT;
    }

    if (!fab_mr_account(length, 1)) {
        return ENOMEM;
    }
    handle->pinned = length;
    return 0;
}

static void fab_mr_unpin_pages(struct fab_mr_handle *handle)
{
    fab_devmem_unmap(&handle->devmem);
    fab_mr_account(handle->pinned, -1);
}

/* Give a region its keys, or undo it if @a ret is not 0 */
static struct ibv_mr *
fab_mr_finish(struct ibv_pd *pd, struct fab_mr_handle *handle, int ret, void *addr,
              size_t length, uint64_t iova, unsigned access)
{
    if (ret == 0) {
        ret = fab_mr_make(pd, handle, addr, length, iova, access);
    }

    if (ret != 0) {
        fab_mr_unpin_pages(handle);
        free(handle);
        errno = ret;
        return NULL;
    }
    return &handle->ibv;
}

struct ibv_mr *fab_mr_reg(struct ibv_pd *pd, void *addr, size_t length,
                          uint64_t iova, unsigned int access)
{
    struct fab_mr_handle *handle = calloc(1, sizeof(*handle));
    int ret;

    if (handle == NULL) {
        return NULL;
    }

    ret = fab_mr_check((uintptr_t)addr, length, iova, access);
    if (ret == 0) {
        ret = fab_mr_pin_pages(handle, &addr, length, access);
    }
    return fab_mr_finish(pd, handle, ret, addr, length, iova, access);
}

struct ibv_mr *fab_mr_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
                                 uint64_t iova, int fd, unsigned int access)
{
    struct fab_mr_handle *handle;
    void *addr = (void*)(uintptr_t)iova; /* as CUDA has it, if it is a real GPU's */
    int ret;

    if (fab_config.dmabuf != 0) {
        errno = EOPNOTSUPP;
        return NULL;
    }

    handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        return NULL;
    }

    ret = fab_mr_check(offset, length, iova, access);
    if (ret == 0) {
        ret = fab_devmem_map(&handle->devmem, fd, offset, length, &addr);
    }
    return fab_mr_finish(pd, handle, ret, addr, length, iova, access);
}

int fab_mr_dereg(struct ibv_mr *ibv)
{
    struct fab_mr *mr = fab_mr_slot(ibv->lkey >> KEY_TAG_BITS);
    uint64_t give_up  = 0;

    if (fab_violations_on()) {
        fab_violations_dereg_mr(ibv);
    }

    __atomic_store_n(&mr->key, 0, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&mr->pins, __ATOMIC_SEQ_CST) != 0) {
        /* an access lasts as long as its copy, unless its process died in it */
        if (give_up == 0) {
            give_up = fab_now() + 2000000000ULL;
        } else if (fab_now() > give_up) {
            __atomic_store_n(&mr->pins, 0, __ATOMIC_SEQ_CST);
        }
        sched_yield();
    }

    __atomic_store_n(&mr->taken, 0, __ATOMIC_RELEASE);
    fab_mr_unpin_pages(fab_mr_handle_of(ibv));
    __atomic_fetch_sub(&fab_pd_of(ibv->pd)->users, 1, __ATOMIC_RELAXED);
    free(fab_mr_handle_of(ibv));
    return 0;
}

struct fab_mr *fab_mr_pin(uint32_t key, uint32_t dev, uint32_t pd,
                          uint32_t proc, uint64_t iova, uint64_t length,
                          uint32_t access, uint64_t *addr,
                          enum fab_mr_error *why)
{
    uint32_t slot = key >> KEY_TAG_BITS;
    struct fab_mr *mr;

    if ((slot == 0) || (slot >= FAB_MR_SLOTS)) {
        *why = FAB_MR_NO_KEY;
        return NULL;
    }

    mr = fab_mr_slot(slot);
    __atomic_fetch_add(&mr->pins, 1, __ATOMIC_SEQ_CST);
    if ((__atomic_load_n(&mr->key, __ATOMIC_SEQ_CST) != key) ||
        (mr->dev != dev) || (mr->proc != proc)) {
        *why = FAB_MR_NO_KEY;
    } else if (mr->pd != pd) {
        *why = FAB_MR_PD;
    } else if ((iova < mr->iova) || (length > mr->length) ||
               ((iova - mr->iova) > (mr->length - length))) {
        *why = FAB_MR_BOUNDS;
    } else if ((mr->access & access) != access) {
        *why = FAB_MR_ACCESS;
    } else {
        *why  = FAB_MR_OK;
        *addr = mr->addr + (iova - mr->iova);
        return mr;
    }

    fab_mr_unpin(mr);
    return NULL;
}

struct fab_mr *fab_mr_peek(uint32_t key)
{
    uint32_t slot = key >> KEY_TAG_BITS;

    if ((slot == 0) || (slot >= FAB_MR_SLOTS) ||
        (fab_mr_slot(slot)->key != key)) {
        return NULL;
    }
    return fab_mr_slot(slot);
}

void fab_mr_reap(uint32_t proc)
{
    struct fab_mr *mr;
    uint32_t i;

    for (i = 1; i <= fab_world->mr_high; ++i) {
        mr = fab_mr_slot(i);
        if (mr->taken && (mr->proc == proc)) {
            mr->key   = 0;
            mr->taken = 0;
        }
    }
}

const char *fab_mr_error_str(enum fab_mr_error error)
{
    switch (error) {
    case FAB_MR_OK:
        return "it is good";
    case FAB_MR_NO_KEY:
        return "no such key";
    case FAB_MR_PD:
        return "of another protection domain";
    case FAB_MR_BOUNDS:
        return "out of bounds";
    case FAB_MR_ACCESS:
        return "not registered for this access";
    }
    return "unknown";
}
