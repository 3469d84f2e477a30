/* Listings, page by page. */
#ifndef HOLDFAST_AGENT_BROKER_QUERIES_LISTINGS_H
#define HOLDFAST_AGENT_BROKER_QUERIES_LISTINGS_H

struct session;

/* The session ended: ends its listings. */
void listings_drop_session(struct session *s);

#endif
