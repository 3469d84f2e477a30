#include "agent/config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/given_file.h"
#include "agent/config/config_load.h"
#include "shm/status.h"
#include "agent/base/tls_keys.h"

#define LINE_SIZE 1024 /* of a file that may have an end of line and blank lines behind it */

/* --- one file --------------------------------------------------------------------------------- */

/* Where a setting's file is: an absolute path is itself; any other is the name of a credential of the service
 * (LoadCredential= in its unit). HF_EINVAL, with a sentence in `why`: there are no credentials here. */
static int secret_path(const char *given, char ret_path[SECRET_PATH_MAX], char *why,
                       size_t why_size)
{
    const char *credentials = secure_getenv("CREDENTIALS_DIRECTORY");
    int length;

    if (given[0] != '/' && !credentials) {
        snprintf(why, why_size,
                 "write an absolute path, or LoadCredential=%.64s:PATH into the agent's unit: "
                 "'%.64s' is "
                 "the name of a credential, and none is loaded here",
                 given, given);
        return HF_EINVAL;
    }
    length = snprintf(ret_path, SECRET_PATH_MAX, "%s%s%s", given[0] == '/' ? "" : credentials,
                      given[0] == '/' ? "" : "/", given);
    if (length < SECRET_PATH_MAX)
        return HF_OK;
    snprintf(why, why_size, "the path is longer than %d bytes", SECRET_PATH_MAX - 1);
    return HF_EINVAL;
}

/* Up to `size` bytes. */
static int config_secrets_read_start(const char *path, char *to, size_t size, size_t *ret_length,
                                     bool *ret_public, char *why, size_t why_size)
{
    struct stat status;
    int fd = given_file_open(path, &status, why, why_size), rc = HF_OK;
    ssize_t got;

    if (fd < 0)
        return fd;
    got = read(fd, to, size);
    if (got < 0) {
        rc = given_file_unread(path, errno, why, why_size);
    } else {
        *ret_length = (size_t)got;
        *ret_public = status.st_mode & S_IROTH;
    }
    (void)close(fd);
    return rc;
}

static bool config_secrets_is_blank(const char *text, size_t length)
{
    size_t at = 0;

    while (at < length && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    return at == length;
}

/* Reads a file with one line into `ret_line`, without its end. HF_EINVAL, with a sentence in `why` that never shows
 * what is in the file. `ret_public`: every user can read it. */
static int secret_read_line(const char *path, char *ret_line, size_t size, bool *ret_public,
                            char *why, size_t why_size)
{
    char text[LINE_SIZE];
    size_t got = 0, length;
    bool is_public = false;
    int rc = config_secrets_read_start(path, text, sizeof(text), &got, &is_public, why, why_size);

    if (rc < 0)
        return rc;
    for (length = 0; length < got && text[length] != '\n'; length++)
        ;
    rc = HF_EINVAL;
    if (!config_secrets_is_blank(text + length, got - length))
        snprintf(why, why_size,
                 "%.160s must have the secret in its first line and nothing below it", path);
    else if (length > 0 && text[length - 1] == '\r')
        snprintf(why, why_size,
                 "write %.160s with lines that end as on Unix: this one ends in a carriage return",
                 path);
    else if (length == 0)
        snprintf(why, why_size, "%.160s is empty", path);
    else if (memchr(text, '\0', length))
        snprintf(why, why_size, "%.160s contains a zero byte", path);
    else if (length >= size)
        snprintf(why, why_size, "%.160s: its line is longer than %zu bytes", path, size - 1);
    else
        rc = HF_OK;
    if (rc == HF_OK) {
        memcpy(ret_line, text, length);
        ret_line[length] = '\0';
        *ret_public = is_public;
    }
    explicit_bzero(text, sizeof(text));
    return rc;
}

/* --- the nodes' passwords --------------------------------------------------------------------- */

/* Of a node's line, what it sets there, and why not. */
static void config_secrets_wrong_node(struct config_load *l, int node, const char *what,
                                      const char *why)
{
    bool from_file = l->report->file[0] && l->origin[CONFIG_ID_node] != ORIGIN_COMMAND_LINE;
    const char *id = l->config.nodes[node].id;

    if (from_file)
        (void)config_wrong_line(l, l->report->node_line[node], "node %s: %s%s", id, what, why);
    else
        (void)config_wrong(l, "node %s: %s%s", id, what, why);
}

/* Of the place where it is set: a node's line, or the setting that is for all of them. */
static void config_secrets_wrong_place(struct config_load *l, int node, bool own, const char *why)
{
    if (own)
        config_secrets_wrong_node(l, node, "password_file: ", why);
    else
        (void)config_wrong_row(l, CONFIG_ID_password_file, "password_file: %s", why);
}

static bool config_secrets_read_password(struct config_load *l, int i, const char *given, char *ret,
                                         size_t size)
{
    bool own = l->config.nodes[i].password_file[0], is_public = false;
    char path[SECRET_PATH_MAX], why[512];
    int rc = secret_path(given, path, why, sizeof(why));

    if (rc == HF_OK) {
        rc = secret_read_line(path, ret, size, &is_public, why, sizeof(why));
        l->report->passing += rc < 0;
    }
    if (rc < 0) {
        config_secrets_wrong_place(l, i, own, why);
        return false;
    }
    if (is_public && !l->config.warning[0])
        snprintf(l->config.warning, sizeof(l->config.warning),
                 "%.120s has a password and every user can read it: chmod o-r it", path);
    return true;
}

void config_read_passwords(struct config_load *l)
{
    struct config *c = &l->config;
    char common[sizeof(c->nodes[0].password)] = "";
    bool wanted = true; /* the common one has not been read */

    for (int i = 0; i < c->node_count; i++) {
        struct node_address *a = &c->nodes[i];

        if (a->password_file[0]) {
            (void)config_secrets_read_password(l, i, a->password_file, a->password,
                                               sizeof(a->password));
        } else if (!a->password[0] && c->password_file[0]) {
            if (wanted &&
                !config_secrets_read_password(l, i, c->password_file, common, sizeof(common)))
                break; /* said once */
            wanted = false;
            memcpy(a->password, common, sizeof(a->password));
        } else if (a->user[0] && !a->password[0]) {
            config_secrets_wrong_node(
                l, i, "", "a user without a password; write USER:PASSWORD@, or use password_file");
        }
    }
    explicit_bzero(common, sizeof(common));
}

/* --- TLS -------------------------------------------------------------------------------------- */

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
    return tls_keys_load(&files, ret_keys, why, why_size) == HF_OK ? HF_OK : HF_EPENDING;
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
    int rc;

    if (tls_any_tls(c) && !c->tls_ca_file[0])
        (void)config_wrong_row(l, CONFIG_ID_node,
                               "give tls_ca_file, the CAs of the nodes' certificates, for "
                               "addresses with rediss://; those of "
                               "public CAs are in /etc/ssl/certs/ca-certificates.crt");
    if (c->tls_key_file[0] && !c->tls_cert_file[0])
        (void)config_wrong_row(
            l, CONFIG_ID_tls_key_file,
            "give the key's certificate, too: tls_key_file goes with tls_cert_file");
    rc = config_tls_keys(c, &keys, why, sizeof(why));
    if (rc < 0) {
        l->report->passing += rc == HF_EPENDING;
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
