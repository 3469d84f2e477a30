#include "shm/file_id.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "shm/nstime.h"
#include "shm/status.h"

int hf_file_id(int fd, struct hf_file_id *ret_id)
{
    struct statx sx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &sx) < 0)
        return HF_ESYS;
    *ret_id = (struct hf_file_id){
        .device = (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor,
        .inode = sx.stx_ino,
    };
    if (sx.stx_mask & STATX_BTIME)
        ret_id->born_ns = sx.stx_btime.tv_sec * HF_NS_PER_SEC + sx.stx_btime.tv_nsec;
    return 0;
}
