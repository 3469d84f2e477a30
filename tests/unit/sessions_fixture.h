/* Clients without connections: what each session is answered is kept. The linker takes these in place of
 * agent/broker/clients'. Include once, after broker_fixture.h. */
#ifndef HOLDFAST_TESTS_SESSIONS_FIXTURE_H
#define HOLDFAST_TESTS_SESSIONS_FIXTURE_H

#define SESSIONS 5

struct told {
    struct hf_completion_entry entry[MOST];
    int count;
};

static struct clients the_clients;
static struct user users[SESSIONS];
static struct client people[SESSIONS];
static struct session sessions[SESSIONS];
static struct told answers_of[SESSIONS];  /* session_answer() */
static struct told progress_of[SESSIONS]; /* session_progress() */
static bool no_room_for_progress;
static int settled; /* client_settle() */

static HF_UNUSED int number_of(const struct session *s)
{
    return (int)(s - sessions);
}

/* Each has its own user and process. */
static HF_UNUSED void make_sessions(void)
{
    memset(&the_clients, 0, sizeof(the_clients));
    memset(users, 0, sizeof(users));
    memset(people, 0, sizeof(people));
    memset(sessions, 0, sizeof(sessions));
    memset(answers_of, 0, sizeof(answers_of));
    memset(progress_of, 0, sizeof(progress_of));
    settled = 0;
    the_clients.agent = &agent;
    the_clients.config = &config;
    the_clients.loop = loop;
    for (int i = 0; i < SESSIONS; i++) {
        users[i].uid = 1000 + (uint32_t)i;
        people[i].user = &users[i];
        people[i].pid = 100 + (uint32_t)i;
        people[i].uid = users[i].uid;
        people[i].clients = &the_clients;
        people[i].ghost_pidfd = -1;
        sessions[i].client = &people[i];
        sessions[i].clients = &the_clients;
        sessions[i].user = &users[i];
        sessions[i].uid = users[i].uid;
        sessions[i].caller = (struct caller){.uid = users[i].uid, .gid = users[i].uid};
        sessions[i].pid = people[i].pid;
        sessions[i].socket.fd = -1;
        LIST_INSERT_HEAD(&people[i].sessions, &sessions[i], of_client);
        LIST_INSERT_HEAD(&the_clients.all, &people[i], all);
        LIST_INSERT_HEAD(&the_clients.sessions, &sessions[i], all);
    }
}

static HF_UNUSED void keep_told(struct told *told, const struct hf_completion_entry *entry)
{
    assert_true(told->count < MOST);
    told->entry[told->count++] = *entry;
}

/* How often a request was answered. */
static HF_UNUSED int times_answered(int s, uint64_t id)
{
    int count = 0;

    for (int i = 0; i < answers_of[s].count; i++)
        count += answers_of[s].entry[i].id == id;
    return count;
}

/* Its answer; fails unless there is exactly one. */
static HF_UNUSED const struct hf_completion_entry *answered(int s, uint64_t id)
{
    assert_int_equal(times_answered(s, id), 1);
    for (int i = 0; i < answers_of[s].count; i++)
        if (answers_of[s].entry[i].id == id)
            return &answers_of[s].entry[i];
    return NULL;
}

/* --- agent/broker/clients/sessions.h ---------------------------------------------------------- */

void session_answer(struct session *s, const struct hf_completion_entry *entry)
{
    hear(entry->op == HF_OP_RELEASE ? "released" : "answer");
    keep_told(&answers_of[number_of(s)], entry);
}

int session_item(HF_UNUSED struct session *s, HF_UNUSED const struct hf_completion_entry *item)
{
    return HF_OK;
}

bool session_takes_progress(const struct session *s)
{
    return !no_room_for_progress && !s->closing;
}

bool session_progress(struct session *s, struct hf_completion_entry *entry)
{
    if (no_room_for_progress)
        return false;
    keep_told(&progress_of[number_of(s)], entry);
    return true;
}

#endif
