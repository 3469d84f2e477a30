/* Doorbells: neither side of a ring ever sleeps while there is something for it to do, without the
 * agent's sweep and without a timeout. An invalid end state is a lost wake-up; an assertion that
 * fails is an entry that was read before it was whole, or overwritten before it was read.
 *
 * The client (`shm/ring_client.c`, `libclient/dispatch.c`) sends three requests, as many at a time as
 * it likes, and waits for three answers. It sleeps on the futex word, or on its socket as programs
 * with an event loop do. The agent (`shm/ring_agent.c`, `agent/broker/clients/sessions.c`) sleeps in epoll on the
 * client's socket. Rings have two places here: one fewer than requests.
 *
 * Rules; a model without one of them must fail:
 */
#define DROP_SUBMIT_FENCE      1  /* `shm/ring_client.c:hf_ring_submit`: tail is out before need_wake is read */
#define DROP_ARM_FENCE         2  /* `shm/ring_agent.c:hf_ring_arm`: need_wake is out before tail is read */
#define DROP_ARM_CHECK         3  /* `shm/ring_agent.c:hf_ring_arm`: looks at tail once more */
#define DROP_NEED_WAKE_LAST    4  /* `shm/ring_client.c:hf_ring_submit`: need_wake is read after the entry is in */
#define DROP_SUBMIT_RELEASE    5  /* `shm/ring_client.c:hf_ring_submit`: the entry is out before tail */
#define DROP_TAKE_ACQUIRE      6  /* `shm/ring_agent.c:hf_ring_take`: tail is read before the entry */
#define DROP_EDGE_FIRST        7  /* `agent/broker/clients/sessions.c:sessions_on_socket`: the bell is read before the ring is looked at */
#define DROP_RING              8  /* `libclient/ring.c:hfc_ring_flush`: rings if any of the requests asked for it */
#define DROP_POST_RELEASE      9  /* `shm/ring_agent.c:hf_ring_put`: the entry is out before tail */
#define DROP_REAP_ACQUIRE      10 /* `shm/ring_client.c:hf_ring_reap`: tail is read before the entry */
#define DROP_BUMP_AFTER_TAIL   11 /* `shm/ring_agent.c:hf_ring_signal`: tail is out before the wake word changes */
#define DROP_BUMP              12 /* `shm/ring_agent.c:hf_ring_signal`: the wake word changes */
#define DROP_FUTEX_WAKE        13 /* `shm/ring_agent.c:hf_ring_signal`: wakes */
#define DROP_FUTEX_COMPARE     14 /* `shm/ring_client.c:hf_ring_wait`: sleeps only while the word is the same */
#define DROP_SEEN_FIRST        15 /* `libclient/turn.c:hfc_turn`: the wake word is read before the ring is */
#define DROP_NUDGE             16 /* `agent/broker/clients/sessions.c:session_answer`: nudges after the post */
#define DROP_FLUSH_NUDGE       21 /* `agent/broker/clients/sessions.c:session_flush`: nudges after what waited for room is posted */
#define DROP_EAT_FIRST         17 /* `libclient/dispatch.c:hf_dispatch`: nudges are eaten before the ring is read */
#define DROP_RING_WHEN_FULL    18 /* `libclient/ring.c:hfc_ring_drain`: rings when it emptied a full ring */
#define DROP_REAP_FENCE        19 /* `shm/ring_client.c:hf_ring_reap`: head is out before tail is read again */
#define DROP_ROOM              20 /* `shm/ring_agent.c:hf_ring_put`: posts only where there is room */

c_decl {
    \#include <stdlib.h>
}

#define PLACES   2
#define REQUESTS 3

/* Words: the requests page, then the completions page. */
#define R_TAIL   0
#define R_HEAD   1
#define C_TAIL   2
#define C_HEAD   3
#define NEED     4
#define WAKE     5
#define R_ENTRY  6 /* two places */
#define C_ENTRY  8
#define N_WORDS  10

#include "weak.pml"

#define CLIENT   0
#define AGENT    1

byte drop;         /* the rule that this run is without; 0 none */
bit edge;          /* the doorbell was rung and epoll has not said so yet */
bit asleep;        /* the client, in FUTEX_WAIT */
bit readable;      /* the client's socket: nudges */

/* --- client ----------------------------------------------------------------------------------- */

proctype client()
{
    byte sent, answered; /* also its cursors: request_tail, completion_head */
    byte head, tail, need, seen, entry, drained;
    bit wake_agent, is_full, polls;

    if
    :: polls = false
    :: polls = true
    fi;
    do
    :: true ->
       if
       :: polls && drop != DROP_EAT_FIRST -> readable = 0
       :: !polls && drop != DROP_SEEN_FIRST -> LOAD(CLIENT, WAKE, seen)
       :: else
       fi;
       /* drain */
       drained = 0;
       do
       :: drained < PLACES ->
          if
          :: drop == DROP_REAP_ACQUIRE -> LOAD(CLIENT, C_ENTRY + answered % PLACES, entry)
          :: else
          fi;
          LOAD(CLIENT, C_TAIL, tail);
          if
          :: tail == answered -> break
          :: else
          fi;
          if
          :: drop != DROP_REAP_ACQUIRE -> LOAD(CLIENT, C_ENTRY + answered % PLACES, entry)
          :: else
          fi;
          assert(entry == answered + 1);
          entry = 0;
          answered++;
          STORE(CLIENT, C_HEAD, answered, RELEASE);
          if
          :: drop != DROP_REAP_FENCE -> FLUSH(CLIENT)
          :: else
          fi;
          drained++
       :: else -> break
       od;
       if
       :: drained == PLACES && drop != DROP_RING_WHEN_FULL -> edge = 1
       :: else
       fi;
       /* flush: any number of requests, at least one if nothing is awaited */
       wake_agent = 0;
       is_full = 0;
       do
       :: sent < REQUESTS && !is_full ->
          LOAD(CLIENT, R_HEAD, head);
          if
          :: sent - head == PLACES -> is_full = 1
          :: else ->
             if
             :: drop == DROP_NEED_WAKE_LAST -> LOAD(CLIENT, NEED, need)
             :: else
             fi;
             STORE(CLIENT, R_ENTRY + sent % PLACES, sent + 1, RELEASE);
             sent++;
             if
             :: drop == DROP_SUBMIT_RELEASE -> STORE(CLIENT, R_TAIL, sent, RELAXED)
             :: else -> STORE(CLIENT, R_TAIL, sent, RELEASE)
             fi;
             if
             :: drop != DROP_SUBMIT_FENCE -> FLUSH(CLIENT)
             :: else
             fi;
             if
             :: drop != DROP_NEED_WAKE_LAST -> LOAD(CLIENT, NEED, need)
             :: else
             fi;
             wake_agent = wake_agent || need
          fi
       :: sent == REQUESTS || is_full || answered < sent -> break
       od;
       if
       :: wake_agent && drop != DROP_RING -> edge = 1
       :: else
       fi;
       head = 0; tail = 0; need = 0; drained = 0; wake_agent = 0;
       if
       :: answered == REQUESTS -> break
       :: else
       fi;
       /* sleep */
       if
       :: is_full -> skip /* it looks again soon by itself (HFC_SLICE_FULL_NS) */
       :: !is_full && polls ->
          if
          :: drop == DROP_EAT_FIRST -> readable = 0
          :: else
          fi;
          readable
       :: !is_full && !polls ->
          if
          :: drop == DROP_SEEN_FIRST -> LOAD(CLIENT, WAKE, seen)
          :: else
          fi;
          atomic {
              if
              :: shared[WAKE] == seen || drop == DROP_FUTEX_COMPARE -> asleep = 1
              :: else
              fi
          };
          !asleep
       fi;
       is_full = 0;
       seen = 0
    od
}

/* --- agent ------------------------------------------------------------------------------------ */

inline post(value)
{
    STORE(AGENT, C_ENTRY + posted % PLACES, value, RELEASE);
    posted++;
    if
    :: drop == DROP_POST_RELEASE -> STORE(AGENT, C_TAIL, posted, RELAXED)
    :: else -> STORE(AGENT, C_TAIL, posted, RELEASE)
    fi;
    /* An atomic add: everything before it is out. */
    if
    :: drop != DROP_BUMP_AFTER_TAIL -> FLUSH(AGENT)
    :: else
    fi;
    atomic {
        if
        :: drop != DROP_BUMP -> shared[WAKE]++
        :: else
        fi
    };
    if
    :: drop != DROP_FUTEX_WAKE -> asleep = 0
    :: else
    fi
}

/* Room in the completion ring, as the head that the client stored shows it. */
inline look_for_room()
{
    LOAD(AGENT, C_HEAD, head);
    room = PLACES - (posted - head);
    head = 0
}

/* `agent/broker/clients/sessions.c:session_flush`: what waited for room, in order. */
inline flush_overflow()
{
    do
    :: answers > posted ->
       look_for_room();
       if
       :: room > 0 || drop == DROP_ROOM -> post(posted + 1)
       :: else -> break
       fi
    :: else -> break
    od
}

proctype agent()
{
    byte taken, posted;   /* its cursors: request_head, completion_tail */
    byte answers;         /* answers made; those not posted are in the overflow */
    byte tail, head, entry, room, had;
    bit is_active;

    do
    :: true ->
end_asleep:
       if
       :: edge ->
          if
          :: drop != DROP_EDGE_FIRST -> edge = 0
          :: else
          fi;
          if
          :: !is_active -> /* `agent/broker/clients/sessions.c:session_activate` */
             is_active = 1;
             STORE(AGENT, NEED, 0, RELAXED)
          :: else
          fi
       :: is_active
       fi;
       /* `agent/broker/clients/sessions.c:session_serve` */
       had = posted;
       flush_overflow();
       if
       :: posted > had && drop != DROP_FLUSH_NUDGE -> readable = 1
       :: else
       fi;
       had = 0;
       do
       :: true ->
          if
          :: drop == DROP_TAKE_ACQUIRE -> LOAD(AGENT, R_ENTRY + taken % PLACES, entry)
          :: else
          fi;
          LOAD(AGENT, R_TAIL, tail);
          if
          :: tail == taken -> break
          :: else
          fi;
          if
          :: drop != DROP_TAKE_ACQUIRE -> LOAD(AGENT, R_ENTRY + taken % PLACES, entry)
          :: else
          fi;
          assert(entry == taken + 1);
          entry = 0;
          taken++;
          STORE(AGENT, R_HEAD, taken, RELEASE);
          /* `agent/broker/clients/sessions.c:session_answer` */
          answers++;
          flush_overflow();
          if
          :: drop != DROP_NUDGE -> readable = 1
          :: else
          fi
       od;
       tail = 0; room = 0;
       if
       :: drop == DROP_EDGE_FIRST -> edge = 0
       :: else
       fi;
       /* `agent/broker/clients/sessions.c:sessions_serve`: armed, or once more */
       STORE(AGENT, NEED, 1, RELEASE);
       if
       :: drop != DROP_ARM_FENCE -> FLUSH(AGENT)
       :: else
       fi;
       LOAD(AGENT, R_TAIL, tail);
       if
       :: tail == taken || drop == DROP_ARM_CHECK -> is_active = 0
       :: else -> STORE(AGENT, NEED, 0, RELAXED)
       fi;
       tail = 0
    od
}

init
{
    c_code { now.drop = getenv("DROP") ? atoi(getenv("DROP")) : 0; };
    atomic {
        shared[NEED] = 1; /* `agent/broker/clients/attach.c:attach_hello`: armed before the client has the rings */
        run client();
        run agent();
        run memory()
    }
}
