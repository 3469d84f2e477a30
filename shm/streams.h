/* The three standard streams of a program, which its caller may have closed, and whose output may be full. */
#ifndef HOLDFAST_SHM_STREAMS_H
#define HOLDFAST_SHM_STREAMS_H

/* Call first of all. Occupies the numbers of closed streams, so that no file or socket gets one. An occupied stream fails like a
 * closed one: input cannot be read, and output cannot be written. `flags`: O_CLOEXEC, so that programs which this one executes
 * find it closed again; or 0. 0, or -1. */
int hf_streams_hold(int flags);

/* Call at the end. Returns `code`, or `failed` with a message on stderr if standard output did not take everything. */
int hf_streams_finish(const char *who, int code, int failed);

#endif
