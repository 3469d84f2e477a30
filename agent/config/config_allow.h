/* The rules of who may do what: `allow = PATTERN WHO... [RIGHT...]`. What they mean is in agent/core/rules.h. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_ALLOW_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_ALLOW_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/config/config.h"

/* Looks up names of users and groups, which may take as long as the host's look-ups do. HF_EINVAL, with a sentence in `why`. */
int config_allow_add(struct config *config, const char *value, char *why, size_t why_size);

/* Also where a user or group has another number now. */
bool config_allow_differs(const struct rules *a, const struct rules *b);

#endif
