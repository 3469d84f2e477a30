/* doctor: the agent's rules of who may do what. */
#include "tools/doctor/doctor_looks.h"

#include <stdio.h>
#include <string.h>

#include "tools/common/exit_code.h"
#include "tools/reader/control.h"

#define ANSWER_BYTES 65536 /* more than as many rules need as an agent may have */

/* One finding for each, and how many there are. */
static unsigned rules_tell_rules(struct doctor *doctor, char *answer, bool *ret_open)
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
    count = rules_tell_rules(doctor, answer, &open);
    if (!count)
        doctor_report(doctor, FINDING_NOTE, "agent.rules", NULL,
                      "there are no rules: every user who may attach may take every name (allow in "
                      "holdfast.conf)");
    else
        doctor_report(doctor, FINDING_OK, "agent.rules", NULL,
                      "%u rule%s; names that none of them matches are %s to take", count,
                      count == 1 ? "" : "s", open ? "everybody's" : "nobody's");
}
