#ifndef HOLDFAST_TOOLS_RUN_STREAMS_H
#define HOLDFAST_TOOLS_RUN_STREAMS_H

/* Closes stdin and stdout, which are the job's. */
void streams_let_go(void);

#endif
