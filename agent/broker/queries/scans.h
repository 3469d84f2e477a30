/* Listings, page by page. */
#ifndef HOLDFAST_AGENT_BROKER_QUERIES_SCANS_H
#define HOLDFAST_AGENT_BROKER_QUERIES_SCANS_H

struct session;

/* The session ended: ends its listings. */
void scans_drop_session(struct session *s);

#endif
