#include "tools/reader/exposition.h"

#include <inttypes.h>
#include <string.h>

/* A label's value: backslash, quote and newline escaped; of what is no printable ASCII the value has \xNN. */
static void write_label(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte == '\\' || byte == '"')
            fprintf(out, "\\%c", byte);
        else if (byte == '\n')
            fputs("\\n", out);
        else if (byte < 0x20 || byte > 0x7e)
            fprintf(out, "\\\\x%02x", byte);
        else
            fputc(byte, out);
    }
}

double hf_metric_age(const struct hf_metrics *m, int64_t at_ns)
{
    if (at_ns <= 0)
        return -1;
    /* It may be later than our reading of the clock. */
    return at_ns < m->e->now.ns ? hf_metric_seconds(m->e->now.ns - at_ns) : 0;
}

bool hf_metric_lives(const struct hf_metrics *m)
{
    return strcmp(m->e->state, HF_AGENT_ALIVE) == 0 || strcmp(m->e->state, HF_AGENT_HUNG) == 0;
}

static void write_pair(FILE *out, const char *before, const char *label, const char *value)
{
    if (!label)
        return;
    fprintf(out, "%s%s=\"", before, label);
    write_label(out, value);
    fputc('"', out);
}

static void write_name(const struct hf_metrics *m, const char *name, const char *node,
                       const char *label, const char *value)
{
    fprintf(m->out, "holdfast_%s", name);
    write_pair(m->out, "{", "agent", m->e->agent);
    write_pair(m->out, ",", node ? "node" : NULL, node);
    write_pair(m->out, ",", label, value);
    fputs("} ", m->out);
}

void hf_metric_head(const struct hf_metrics *m, const char *name, const char *type,
                    const char *help)
{
    fprintf(m->out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", name, help, name, type);
}

void hf_metric_real(const struct hf_metrics *m, const char *name, const char *label,
                    const char *value_of_label, double value)
{
    write_name(m, name, NULL, label, value_of_label);
    fprintf(m->out, "%.15g\n", value);
}

void hf_metric_whole(const struct hf_metrics *m, const char *name, const char *label,
                     const char *value_of_label, uint64_t value)
{
    write_name(m, name, NULL, label, value_of_label);
    fprintf(m->out, "%" PRIu64 "\n", value);
}

void hf_metric_node(const struct hf_metrics *m, const char *name, const char *node,
                    const char *label, const char *value_of_label, double value)
{
    write_name(m, name, node, label, value_of_label);
    fprintf(m->out, "%.15g\n", value);
}

void hf_metric_gauge(const struct hf_metrics *m, const char *name, const char *help, double value)
{
    hf_metric_head(m, name, HF_METRIC_GAUGE, help);
    hf_metric_real(m, name, NULL, NULL, value);
}
