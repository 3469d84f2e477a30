/* A table that its owner cuts while a command reads it: the mapping then raises SIGBUS. */
#ifndef HOLDFAST_TOOLS_READER_CUT_H
#define HOLDFAST_TOOLS_READER_CUT_H

/* From now on the command ends with a sentence then, and exit code 125. Before the first table is mapped. */
void cut_guard(void);

#endif
