/* The settings of TLS: what is in their files, and what nodes with rediss:// want of them. */
#include <stdio.h>
#include <string.h>

#include "agent/base/tls_keys.h"
#include "agent/config/config_load.h"
#include "agent/config/config_secrets.h"
#include "shm/status.h"

#define FILES 3

static const char *const names[FILES] = {"tls_ca_file", "tls_cert_file", "tls_key_file"};

int config_tls_keys(const struct config *c, struct tls_keys **ret_keys, char *why, size_t why_size)
{
    const char *const given[FILES] = {c->tls_ca_file, c->tls_cert_file, c->tls_key_file};
    char paths[FILES][SECRET_PATH_MAX], reason[512];
    struct tls_files files = {.check_host = c->tls_check_host};

    *ret_keys = NULL;
    for (int i = 0; i < FILES; i++) {
        files.names[i] = names[i];
        if (*given[i] && secret_path(given[i], paths[i], reason, sizeof(reason)) < 0) {
            snprintf(why, why_size, "%s: %s", names[i], reason);
            return HF_EINVAL;
        }
    }
    if (!*given[0] && !*given[1])
        return HF_OK;
    files.ca = *given[0] ? paths[0] : NULL;
    files.cert = *given[1] ? paths[1] : NULL;
    files.key = *given[2] ? paths[2] : NULL;
    if (!files.key)
        files.names[2] = names[1];
    return tls_keys_load(&files, ret_keys, why, why_size);
}

int config_use_tls(const struct config *c, char *why, size_t why_size)
{
    struct tls_keys *keys;
    int rc = config_tls_keys(c, &keys, why, why_size);

    if (rc == HF_OK)
        tls_keys_use(keys);
    return rc;
}

/* The setting that a sentence of config_tls_keys() begins with. */
static enum config_id tls_row_of(const char *why)
{
    size_t length = strcspn(why, ":");
    int row = config_row_find(why, length);

    return row < 0 ? CONFIG_ID_tls_ca_file : (enum config_id)row;
}

static bool tls_any_tls(const struct config *c)
{
    bool any = false;

    for (int i = 0; i < c->node_count; i++)
        any |= c->nodes[i].tls;
    return any;
}

void config_read_tls(struct config_load *l)
{
    struct config *c = &l->config;
    struct tls_keys *keys;
    char why[512];

    if (tls_any_tls(c) && !c->tls_ca_file[0])
        (void)config_wrong_row(l, CONFIG_ID_node,
                               "give tls_ca_file, the CAs of the nodes' certificates, for "
                               "addresses with rediss://; those of "
                               "public CAs are in /etc/ssl/certs/ca-certificates.crt");
    if (c->tls_key_file[0] && !c->tls_cert_file[0])
        (void)config_wrong_row(
            l, CONFIG_ID_tls_key_file,
            "give the key's certificate, too: tls_key_file goes with tls_cert_file");
    if (config_tls_keys(c, &keys, why, sizeof(why)) < 0) {
        (void)config_wrong_row(l, tls_row_of(why), "%s", why);
        return;
    }
    if (!keys)
        return;
    memcpy(c->tls_digest, tls_keys_digest(keys), sizeof(c->tls_digest));
    if (!c->warning[0])
        snprintf(c->warning, sizeof(c->warning), "%s", tls_keys_warning(keys));
    tls_keys_drop(keys);
}
