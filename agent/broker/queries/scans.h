/* Lists of names, page by page. */
#ifndef HOLDFAST_AGENT_BROKER_QUERIES_SCANS_H
#define HOLDFAST_AGENT_BROKER_QUERIES_SCANS_H

struct session;

/* Nothing is listed for it any more. */
void scans_drop_session(struct session *s);

#endif
