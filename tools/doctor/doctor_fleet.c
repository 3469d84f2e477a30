/* doctor: the fleet's record. */
#include "tools/doctor/doctor_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/reader/control_socket.h"
#include "tools/reader/fleet_told.h"

#define TEXT_SIZE 4096

/* Another host that connects there finds another server. */
static bool fleet_is_local(const char *address)
{
    return *address == '/' || strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0;
}

/* A node has a complete record, or one that changes. */
static bool fleet_is_told_of_a_fleet(const struct fleet_told *told)
{
    static const char *const words[] = {"ours", "earlier", "changing", "later", "foreign"};

    for (int i = 0; i < told->count; i++)
        for (size_t k = 0; k < HF_LENGTH(words); k++)
            if (strcmp(told->node[i].says, words[k]) == 0)
                return true;
    return false;
}

static void fleet_look_at_record(struct doctor *doctor, const struct fleet_told *told)
{
    char text[4 * TOLD_TEXT_SIZE], name[4 * sizeof(told->name)];
    bool exists = fleet_is_told_of_a_fleet(told);

    text_escape_str(text, sizeof(text), *told->differs ? told->differs : told->waits);
    if (*told->differs)
        doctor_report(doctor, FINDING_FAIL, "fleet.record",
                      "write the fleet's ids, ttl_max, key formats and database into this host's "
                      "configuration file and restart its agent; to change the fleet: holdfast "
                      "fleet move --help",
                      "this host may take no locks: %s", text);
    else if (!told->known)
        doctor_report(doctor, FINDING_FAIL, "fleet.record",
                      exists
                          ? "do what is said above or of the nodes: the fleet exists, and is not "
                            "founded once more"
                          : "found the fleet: see that all its nodes are up and reachable from "
                            "here; it is founded once, by the first agent that reaches all of "
                            "them",
                      "this agent has no record of its fleet, so no new lock can be had%s%s",
                      *text ? ": " : "", text);
    else if (told->told_version && *text)
        doctor_report(doctor, FINDING_FAIL, "fleet.record", text,
                      "this host remembers version %" PRIu64
                      " of the fleet, which is at version %" PRIu64 " at the least",
                      told->version, told->told_version);
    else if (strcmp(told->state, "changing") == 0)
        doctor_report(doctor, FINDING_WARN, "fleet.record", "see holdfast fleet",
                      "the fleet changes to version %" PRIu64 "%s%s", told->version,
                      *text ? ": " : "", text);
    else if (fleet_told_narrow(told))
        doctor_report(doctor, FINDING_NOTE, "fleet.record", NULL,
                      "version %" PRIu64 " of the fleet settles in %" PRIu64
                      " s: until then only the nodes that stayed count",
                      told->version, told->settles_ms / 1000 + 1);
    else if (*text)
        doctor_report(doctor, FINDING_WARN, "fleet.record", "see holdfast fleet",
                      "the fleet's record is not on all nodes: %s", text);
    else
        doctor_report(doctor, FINDING_OK, "fleet.record", NULL,
                      "fleet %.*s version %" PRIu64 ", %s: all its hosts have the same nodes at "
                      "the same addresses",
                      TOLD_NAME_SHOWN, text_escape_str(name, sizeof(name), told->name),
                      told->version, told->state);
}

/* "what is so; what to do" */
static void fleet_look_at_misplaced(struct doctor *doctor, const char *told)
{
    char text[TEXT_SIZE], *remedy;

    text_escape_str(text, sizeof(text), told);
    remedy = strstr(text, "; ");
    if (remedy) {
        *remedy = '\0';
        remedy += strlen("; ");
    }
    doctor_report(doctor, FINDING_FAIL, "nodes.addresses", remedy ? remedy : "see holdfast fleet",
                  "%s", text);
}

/* (!) fleet_address=SEAT vouches for whatever answers at the address before it: with the address that was, a server that has left would
 * be a node of this host alone. */
static void fleet_look_at_addresses(struct doctor *doctor, const struct fleet_told *told)
{
    char text[TEXT_SIZE], remedy[TEXT_SIZE], id[4 * HF_NODE_TEXT_MAX + 1],
        seat[4 * HF_NODE_TEXT_MAX + 1], link[4 * HF_NODE_TEXT_MAX + 1];

    for (int i = 0; i < told->misplaced_count; i++)
        fleet_look_at_misplaced(doctor, told->misplaced[i]);
    for (int i = 0; i < told->count; i++) {
        const struct fleet_told_node *node = &told->node[i];

        if (!node->elsewhere || told->misplaced_count)
            continue;
        text_escape_str(id, sizeof(id), node->id);
        text_escape_str(seat, sizeof(seat), node->seat);
        text_escape_str(link, sizeof(link), node->link);
        if (*link)
            snprintf(
                remedy, sizeof(remedy),
                "let %s lead to the server at %s first; only then configure %s=%s,fleet_address=%s",
                link, seat, id, link, seat);
        else
            snprintf(remedy, sizeof(remedy), "configure %s=%s", id, seat);
        doctor_report(doctor, FINDING_WARN, "nodes.addresses", remedy, "%s",
                      fleet_told_elsewhere(text, sizeof(text), node));
    }
}

/* (!) What a host without a memory goes by where no node tells it otherwise. */
static void fleet_look_at_ttl_max(struct doctor *doctor, const struct fleet_told *told)
{
    char remedy[160], fleets[TEXT_SPAN_SIZE], files[TEXT_SPAN_SIZE];

    if (!told->known || !told->file_ttl_max_ms || told->file_ttl_max_ms >= told->ttl_max_ms)
        return;
    snprintf(remedy, sizeof(remedy),
             "write ttl_max = %" PRIu64
             "ms into its configuration file, and restart its agent: its leases stay",
             told->ttl_max_ms);
    doctor_report(doctor, FINDING_WARN, "fleet.ttl_max", remedy,
                  "ttl_max is %s for this fleet and %s in this host's configuration file: after a "
                  "reboot its agent may count emptied nodes while a lease of %s is still held",
                  text_span(fleets, sizeof(fleets), (int64_t)told->ttl_max_ms),
                  text_span(files, sizeof(files), (int64_t)told->file_ttl_max_ms), fleets);
}

/* With some nodes on this host and some not, other hosts are meant; with all of them here, who knows. */
static void fleet_look_at_local(struct doctor *doctor, const struct fleet_told *told)
{
    char id[4 * HF_NODE_TEXT_MAX + 1], seat[4 * HF_NODE_TEXT_MAX + 1];
    int local = 0;

    for (int i = 0; i < told->seat_count; i++)
        local += fleet_is_local(told->seat[i].address);
    if (local == told->seat_count && local > 0)
        doctor_report(doctor, FINDING_NOTE, "nodes.addresses", NULL,
                      "the fleet has all its nodes at addresses of this host alone: no other host "
                      "can belong to it");
    for (int i = 0; local < told->seat_count && i < told->seat_count; i++)
        if (fleet_is_local(told->seat[i].address))
            doctor_report(doctor, FINDING_WARN, "nodes.addresses",
                          "give that node a server at an address that all hosts reach: holdfast "
                          "fleet move",
                          "%s is at %s for this fleet: to each other host that is another server",
                          text_escape_str(id, sizeof(id), told->seat[i].id),
                          text_escape_str(seat, sizeof(seat), told->seat[i].address));
}

/* What the table has of it, for who may not ask the agent. */
static void fleet_look_at_flags(struct doctor *doctor, const struct reader *reader)
{
    struct hf_node_row rows[HF_NODES_MAX];
    uint32_t count = reader_nodes(reader, rows);
    char id[4 * sizeof(rows[0].id)];

    for (uint32_t i = 0; i < count; i++)
        if (rows[i].flags & HF_NODE_F_ELSEWHERE)
            doctor_report(doctor, FINDING_WARN, "nodes.addresses",
                          "see holdfast fleet, as root or the agent's own user",
                          "the fleet has %s at another address than this host's configuration",
                          text_escape_str(id, sizeof(id), rows[i].id));
}

void doctor_fleet_look(struct doctor *doctor, const struct reader *reader, const struct life *life)
{
    struct fleet_told told;
    char why[512];

    if (life->verdict != LIFE_ALIVE)
        return;
    if (fleet_told_ask_at(&reader->place, &told, why, sizeof(why)) != EXIT_OK) {
        doctor_report(doctor, FINDING_NOTE, "fleet.record", NULL,
                      "what the agent knows of its fleet cannot be seen: %s", why);
        fleet_look_at_flags(doctor, reader);
        return;
    }
    fleet_look_at_record(doctor, &told);
    fleet_look_at_ttl_max(doctor, &told);
    if (!told.told_version) /* otherwise what the record has is out of date */
        fleet_look_at_addresses(doctor, &told);
    if (told.known && !(reader->table.header->flags & HF_TABLE_F_DEV))
        fleet_look_at_local(doctor, &told);
}

/* --- rules ------------------------------------------------------------------------------------ */

/* doctor: the agent's rules of who may do what. */

#define ANSWER_BYTES 65536 /* more than as many rules need as an agent may have */

/* One finding for each, and how many there are. */
static unsigned doctor_tell_rules(struct doctor *doctor, char *answer, bool *ret_open)
{
    char *line;
    unsigned count = 0;

    *ret_open = true;
    while ((line = strsep(&answer, "\n"))) {
        if (strcmp(line, "others take=no") == 0)
            *ret_open = false;
        if (strncmp(line, "rule ", 5) != 0)
            continue;
        count++;
        doctor_report(doctor, FINDING_NOTE, "agent.rules", NULL, "allow = %s",
                      line + 5); /* the operator's own words, which have no control characters */
    }
    return count;
}

void doctor_rules_look(struct doctor *doctor, const struct reader *reader, const struct life *life)
{
    const struct control_request request = {
        .line = "rules", .purpose = "ask it for its rules", .patience_s = 2};
    static char answer[ANSWER_BYTES];
    char why[512];
    unsigned count;
    bool open;

    /* A user's own agent serves nobody else. */
    if (life->verdict != LIFE_ALIVE || (reader->table.header->flags & HF_TABLE_F_USER))
        return;
    if (control_ask_at(&reader->place, &request, answer, sizeof(answer), why, sizeof(why)) !=
        EXIT_OK) {
        doctor_report(doctor, FINDING_NOTE, "agent.rules", NULL,
                      "who may take which names cannot be seen: %s", why);
        return;
    }
    if (strncmp(answer, "rules 1\n", 8) != 0)
        return;
    count = doctor_tell_rules(doctor, answer, &open);
    if (!count)
        doctor_report(doctor, FINDING_NOTE, "agent.rules", NULL,
                      "there are no rules: every user who may attach may take every name (allow in "
                      "holdfast.conf)");
    else
        doctor_report(doctor, FINDING_OK, "agent.rules", NULL,
                      "%u rule%s; names that none of them matches are %s to take", count,
                      count == 1 ? "" : "s", open ? "everybody's" : "nobody's");
}
