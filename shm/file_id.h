/* Which file an open one is. A renamed file is the same one; a copy, and a file that was moved to another file system, is
 * another one. Each file that outlives an agent has its own in its header, so an agent knows a copy. Any thread. */
#ifndef HOLDFAST_SHM_FILE_ID_H
#define HOLDFAST_SHM_FILE_ID_H

#include <stdint.h>

struct hf_file_id {
    uint64_t device; /* of the file system: major << 32 | minor; used again once that is gone */
    uint64_t inode;  /* (!) of a copy on another file system perhaps the same */
    int64_t born_ns; /* CLOCK_REALTIME; 0: the file system does not tell, and the others decide */
};
_Static_assert(sizeof(struct hf_file_id) == 24, "compared as bytes");

/* 0, or HF_ESYS with errno. */
int hf_file_id(int fd, struct hf_file_id *ret_id);

#endif
