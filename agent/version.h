/* The program's version; libclient/holdfast.h carries the library's. */
#ifndef HOLDFAST_AGENT_VERSION_H
#define HOLDFAST_AGENT_VERSION_H

#define HOLDFAST_VERSION "0.1.0"

#endif
