/* A private file in the agent's directory, mapped shared, that outlives the agent and is good for one boot, one time
 * namespace and one list of nodes. Everything is written through the mapping; the kernel keeps it when the agent is killed. A file
 * is made under another name and renamed, so there is never one without a whole header.
 * The caller holds DIR/lock. (!) That names a path, which anybody with the agent's rights can remove or move, so an agent
 * owns each file that it keeps mapped by a lock on the file itself.
 */
#ifndef HOLDFAST_AGENT_STATE_STATE_FILE_H
#define HOLDFAST_AGENT_STATE_STATE_FILE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "shm/process.h"

#define STATE_FILE_HEADER 4096
#define STATE_FILE_PATH   600

struct state_file_header {
    uint64_t magic, fingerprint,
        size;                /* fingerprint: of the records' layout; size: of a new one, at least */
    struct boot_clock clock; /* of all times in it */
    uint32_t in_use;         /* 0: nothing in it matters, to a reader of another layout too */
    uint32_t nodes;
    char list_hash[44];
    struct hf_file_id file; /* which one this is; state_file_begin() fills it in */
    uint32_t pid;           /* of the agent that owns it, for people; 0: an earlier version's */
};

/* Two builds whose facts about the layout differ refuse each other's files. */
uint64_t state_file_fingerprint(const uint32_t *facts, size_t count);

/* Takes the room that the next state_file_begin() of that size uses, in a file of zeros beside `path`. HF_ESYS with `why`:
 * there is none. */
int state_file_reserve(const char *path, const char *what, size_t size, char *why, size_t why_size);
void state_file_unreserve(const char *path);

/* Before the file is judged. The lock is held for as long as the file is open or mapped. HF_EBUSY with `why`: a living
 * agent owns it, under whatever path; HF_ESYS. */
int state_file_own(const char *path, int fd, char *why, size_t why_size);
/* Names this process as the owner of a mapped file. */
void state_file_sign(void *map);

/* Making a file takes two steps, and is filled in between: a kill at any point leaves the earlier file, or this
 * one whole. Makes an empty file beside `path`, owned, which no other program knows; `ret_fd` is the caller's. `what` names
 * it in an error's text. HF_ESYS with errno and `why`: nothing is left of it. */
int state_file_begin(const char *path, const char *what, const struct state_file_header *want,
                     int *ret_fd, char *why, size_t why_size);
/* Renames it to `path`; HF_ESYS as above. */
int state_file_commit(const char *path, char *why, size_t why_size);
/* Removes the file of state_file_begin(), also one that a killed agent left. */
void state_file_abandon(const char *path);

/* Both steps: HF_OK with an empty file at `path`, or HF_ESYS with errno and `why`. */
int state_file_make(const char *path, const char *what, const struct state_file_header *want,
                    int *ret_fd, char *why, size_t why_size);

/* A small file, written anew as a whole: both steps, with `data` behind the header (`want->size` is of both). HF_ESYS
 * with `why`: the earlier file stands. */
int state_file_replace(const char *path, const char *what, const struct state_file_header *want,
                       const void *data, size_t size, char *why, size_t why_size);
/* HF_OK also where there is none; HF_ESYS with `why`. */
int state_file_remove(const char *path, char *why, size_t why_size);

/* Room for more at a file's end: 0 or an errno. (!) Before anybody touches it: that would raise SIGBUS. */
int state_file_take(int fd, size_t from, size_t to);

/* `size` may reach beyond the file's end, where nothing is touched before there is room. */
int state_file_map(const char *path, int fd, size_t size, void **ret_map, char *why,
                   size_t why_size);
/* Keeps a part in memory, of a file of no more than this; the kernel decides about larger ones. */
#define STATE_FILE_LOCKED ((size_t)16 << 20) /* bytes */
void state_file_lock(void *map, size_t from, size_t to);
/* To read it only, also beside the agent that writes it: what is read may be half written. */
int state_file_view(const char *path, int fd, size_t size, void **ret_map, char *why,
                    size_t why_size);

enum state_file_worth {
    STATE_FILE_GOOD, /* of this boot and layout; the caller judges the list */
    STATE_FILE_OF_ANOTHER_BOOT,
    STATE_FILE_COPY, /* not the file that its agent made: that agent may live and go on with its own */
    STATE_FILE_OF_ANOTHER_LAYOUT,
    STATE_FILE_OF_ANOTHER_CLOCK, /* of this boot and layout, and of another time namespace */
    STATE_FILE_DAMAGED,
    STATE_FILE_FOREIGN, /* not a private file of ours */
};

/* Judges an existing file by its header, which is filled in unless DAMAGED or FOREIGN. */
enum state_file_worth state_file_judge(int fd, const struct state_file_header *want,
                                       struct state_file_header *ret_header);
/* Puts errno's text into `why`; HF_ESYS. */
int state_file_say(const char *doing, const char *path, char *why, size_t why_size);

/* A record in two halves that survives a kill at any store: the idle half is written, then its sequence
 * number is stored; until then the other half counts. Nothing here tells a damaged half: the files are this boot's own.
 *
 * Who writes: one thread of the agent. Who reads: the next agent, or a program that looks at a running agent's file: it
 * copies the newest half, then asks whether that still is the newest. Until then nobody writes to it.
 */

/* The head of a half. */
struct half_head {
    _Atomic uint64_t seq; /* 0: never written; the half with the higher one counts */
};

uint64_t half_seq(const void *half);
/* `size` is the size of one half; `halves` are two, one behind the other.
 * 0 or 1; HF_ENOTHELD: neither was ever written. */
int half_newest(const void *halves, size_t size);
/* Writes `body`, a half whose head is ignored. */
void half_commit(void *halves, size_t size, const void *body);

#endif
