/* Attach, detach, restart: no lease without an owner who knows of it or whose end will end it, no key
 * that nobody releases, never two owners, no handle that comes back.
 *
 * Two processes want one name. Each attaches, asks, and holds for ever or releases. The first may
 * change its mind, and may be killed at any step. The second is a forked child of the first: it
 * knows its cookie and its request. The agent (`agent/broker/clients/sessions.c`, `agent/broker/locks/requests.c`,
 * `agent/broker/locks/grants.c`, `agent/renewal/renewal_lease.c`) may lose a lease, and may be killed at any step; it is
 * started again then (`agent/broker/locks/readopt.c`). A lease is a generation; `key` is what stands on the nodes.
 *
 * Rules; a model without one of them must fail:
 */
#define DROP_SESSION_END    1  /* `agent/broker/clients/sessions.c:session_end`: the last session of a client ends its leases */
#define DROP_WAITERS        2  /* `agent/broker/locks/requests.c:requests_drop_session`: what a session asked for goes with it */
#define DROP_INTENT         3  /* `agent/broker/locks/rounds.c:round_journal_intent`: INTENT before the first SET */
#define DROP_ENDING         4  /* `agent/renewal/renewal_lease.c:lease_end_lease`: ENDING before the word goes to 0 */
#define DROP_WORD_FIRST     5  /* `agent/renewal/renewal_lease.c:lease_end_lease`: the word goes to 0 before a release leaves */
#define DROP_FREE_LAST      6  /* `agent/broker/locks/ends.c:grant_ended`: FREE after the release */
#define DROP_RECOVER_WORD   7  /* `agent/broker/locks/readopt.c:readopt_slot_over`: the word goes to 0 before a journaled release */
#define DROP_RECOVER_KEY    8  /* `agent/broker/locks/readopt.c:readopt_release_record`: what was half won or half released is released */
#define DROP_RECOVER_DEAD   9  /* `agent/broker/locks/readopt.c:readopt_decide`: a lease whose owner is dead is not readopted */
#define DROP_GHOST          10 /* `agent/broker/clients/clients.c:client_ghost`: an owner that has not come back is watched */
#define DROP_GHOST_STAYS    11 /* `agent/broker/clients/attach.c:attach_hello`: the ghost's watch ends only when a session has one */
#define DROP_SAME_PROCESS   12 /* `agent/broker/clients/attach.c:attach_client_resume`: a cookie is good for the very process only */
#define DROP_RESEND         13 /* `libclient/op.c:hfc_ops_requeue`: unanswered requests are sent again */
#define DROP_SAME_REQUEST   14 /* `agent/broker/locks/requests.c:request_acquire`: a request that was granted is answered so again */
#define DROP_OWN            15 /* `agent/broker/locks/requests.c:request_release`: nobody else's lease is released */
#define DROP_UNWANTED       16 /* `libclient/acquire.c:acquire_note_grant`: a grant that is not wanted any more is released */

c_decl {
    \#include <stdlib.h>
}

#define NOBODY     2
#define FREE       0
#define INTENT     1
#define HELD       2
#define ENDING     3

mtype = { ACQUIRE, CANCEL, RELEASE, GRANTED, CANCELLED, RELEASED };

byte drop; /* the rule that this run is without; 0 none */

/* what outlives an agent */
byte key;                    /* on the nodes: a generation, 0 none */
byte word;                   /* in the table: a generation, 0 */
byte state, owner = NOBODY;  /* the journal's */
byte generation;             /* the journal's: last one used */
bit ended[8];                /* generations whose word went to 0: never to stand again */

/* the two processes */
bit alive[2] = 1;
byte handle[2];              /* the generation that a process believes to hold, as long as `word` says so */
bit waits[2], done[2];
bit hello[2];                /* on its way to the agent */
bit up[2];                   /* the session, as the process sees it */
bit gone[2];                 /* the socket or the process ended, and the agent has not looked yet */
chan asks[2] = [3] of { mtype, byte };
chan tells[2] = [3] of { mtype, byte };

/* the agent's own memory */
bit running, killed;
bit lost;                    /* one was lost */
bit lease;                   /* held, `generation` and `owner` are whose */
bit session[2], ghost[2], wanted[2];

#define believes(p) (alive[p] && handle[p] != 0 && handle[p] == word)

/* --- processes -------------------------------------------------------------------------------- */

inline send(p, what, arg)
{
    atomic {
        if
        :: up[p] -> asks[p]!what, arg
        :: else
        fi
    }
}


proctype process(byte p)
{
    byte g;
    bit cancelled, asked, releasing;

    {
end_life:
        do
        :: !up[p] -> /* `libclient/link.c:hfc_link_drive` */
           if
           :: done[p] && !releasing -> break
           :: else
           fi;
end_attach:
           atomic {
               running && !session[p] && !hello[p];
               hello[p] = 1
           };
end_hello:
           up[p] || (!hello[p] && !session[p]);
           if
           :: up[p] && asked && waits[p] && drop != DROP_RESEND ->
              send(p, ACQUIRE, 0);
              if
              :: cancelled -> send(p, CANCEL, 0)
              :: else
              fi
           :: up[p] && releasing && drop != DROP_RESEND -> send(p, RELEASE, g)
           :: else
           fi
        :: up[p] && !asked ->
           asked = 1;
           waits[p] = 1;
           send(p, ACQUIRE, 0)
        :: p == 0 && up[p] && waits[p] && !cancelled ->
           cancelled = 1;
           send(p, CANCEL, 0)
        :: atomic { up[p] && nempty(tells[p]) ->
               if
               :: tells[p]?GRANTED, g ->
                  if
                  :: !waits[p] -> skip
                  :: waits[p] && !cancelled ->
                     waits[p] = 0;
                     handle[p] = g
                  :: waits[p] && cancelled ->
                     waits[p] = 0;
                     done[p] = 1;
                     if
                     :: drop != DROP_UNWANTED ->
                        releasing = 1;
                        send(p, RELEASE, g)
                     :: else
                     fi
                  fi
               :: tells[p]?CANCELLED, _ ->
                  waits[p] = 0;
                  done[p] = 1
               :: tells[p]?RELEASED, _ ->
                  releasing = 0
               fi
           }
        :: handle[p] != 0 -> /* `libclient/release.c:release_release` */
           g = handle[p];
           handle[p] = 0;
           done[p] = 1;
           releasing = 1;
           send(p, RELEASE, g)
        :: handle[p] != 0 ->
end_holding:
           handle[p] != word -> /* lost */
           handle[p] = 0;
           done[p] = 1
        :: done[p] && !releasing && !waits[p] && up[p] ->
end_idle:
           false
        od
    } unless {
        !alive[p]
    }
}

proctype killer(byte p)
{
    if
    :: atomic {
           alive[p] = 0;
           hello[p] = 0;
           up[p] = 0;
           handle[p] = 0;
           waits[p] = 0;
           gone[p] = 1
       }
    :: true
    fi
}

/* --- the agent -------------------------------------------------------------------------------- */

inline set_word(v)
{
    atomic {
        assert(v == 0 || !ended[v]);
        if
        :: v == 0 && word != 0 -> ended[word] = 1
        :: else
        fi;
        word = v
    }
}

inline end_lease()
{
    if
    :: drop != DROP_ENDING -> state = ENDING
    :: else
    fi;
    if
    :: drop == DROP_WORD_FIRST -> key = 0
    :: else
    fi;
    set_word(0);
    if
    :: drop == DROP_FREE_LAST ->
       state = FREE;
       key = 0
    :: else ->
       key = 0;
       state = FREE
    fi;
    atomic {
        lease = 0;
        owner = NOBODY
    }
}

inline tell(p, what, arg)
{
    if
    :: session[p] -> tells[p]!what, arg
    :: else
    fi
}

/* A round is one step to the outside but for its stores: it asks the nodes, which all say yes. */
inline grant(p)
{
    atomic {
        generation++;
        owner = p
    };
    if
    :: drop != DROP_INTENT -> state = INTENT
    :: else
    fi;
    assert(key == 0);
    key = generation;
    state = HELD;
    set_word(generation);
    atomic {
        lease = 1;
        wanted[p] = 0;
        tell(p, GRANTED, generation)
    }
}

inline client_gone(p)
{
    if
    :: lease && owner == p && drop != DROP_SESSION_END -> end_lease()
    :: else
    fi
}

inline look_at(p)
{
    if
    :: atomic { gone[p] && (session[p] || ghost[p]) ->
           if
           :: session[p] ->
              session[p] = 0;
              if
              :: drop != DROP_WAITERS -> wanted[p] = 0
              :: else
              fi
           :: else
           fi;
           if
           :: !alive[p] -> ghost[p] = 0
           :: else
           fi;
           gone[p] = 0
       };
       client_gone(p)
    :: atomic { hello[p] && !session[p] ->
           hello[p] = 0;
           /* The process may have ended by now, and what it is sent goes nowhere. */
           if
           :: alive[p] ->
              session[p] = 1;
              up[p] = 1;
              ghost[p] = 0
           :: else
           fi
       }
    :: atomic { drop == DROP_GHOST_STAYS && hello[p] && ghost[p] -> ghost[p] = 0 }
    :: session[p] && !gone[p] && nempty(asks[p]) ->
       if
       :: asks[p]?ACQUIRE, arg ->
          if
          :: lease && owner == p && drop != DROP_SAME_REQUEST -> tell(p, GRANTED, generation)
          :: lease && owner != p && drop == DROP_SAME_PROCESS -> tell(p, GRANTED, generation)
          :: else -> wanted[p] = 1
          fi
       :: asks[p]?CANCEL, arg ->
          if
          :: wanted[p] ->
             wanted[p] = 0;
             tell(p, CANCELLED, 0)
          :: else
          fi
       :: asks[p]?RELEASE, arg ->
          if
          :: lease && (drop == DROP_OWN || (generation == arg && owner == p)) ->
             assert(generation == arg && owner == p);
             end_lease()
          :: else
          fi;
          tell(p, RELEASED, 0)
       fi;
       arg = 0
    fi
}

proctype agent()
{
    byte arg;

restart:
    {
        /* `agent/broker/locks/readopt.c:readopt` */
        if
        :: state == HELD ->
           if
           :: alive[owner] || drop == DROP_RECOVER_DEAD ->
              atomic {
                  set_word(generation);
                  lease = 1;
                  if
                  :: drop != DROP_GHOST ->
                     ghost[owner] = 1;
                     gone[owner] = !alive[owner] && drop != DROP_RECOVER_DEAD
                  :: else
                  fi
              }
           :: else -> end_lease()
           fi
        :: state == INTENT || state == ENDING ->
           state = ENDING;
           if
           :: drop != DROP_RECOVER_WORD -> set_word(0)
           :: else
           fi;
           if
           :: drop != DROP_RECOVER_KEY -> key = 0
           :: else
           fi;
           state = FREE;
           owner = NOBODY
        :: state == FREE
        fi;
        running = 1;
end:
        do
        :: look_at(0)
        :: look_at(1)
        :: lease && !lost ->
           lost = 1; /* too few nodes renewed it in time */
           end_lease()
        :: !lease && wanted[0] -> grant(0)
        :: !lease && wanted[1] -> grant(1)
        od
    } unless {
        killed
    };
    /* Its memory and its sockets are gone; the processes see that. */
    atomic {
        killed = 0;
        running = 0;
        lease = 0;
        session[0] = 0; session[1] = 0;
        ghost[0] = 0; ghost[1] = 0;
        wanted[0] = 0; wanted[1] = 0;
        hello[0] = 0; hello[1] = 0;
        up[0] = 0; up[1] = 0;
        gone[0] = 0; gone[1] = 0;
        arg = 0;
        do
        :: asks[0]?_, _
        :: asks[1]?_, _
        :: tells[0]?_, _
        :: tells[1]?_, _
        :: empty(asks[0]) && empty(asks[1]) && empty(tells[0]) && empty(tells[1]) -> break
        od
    };
    goto restart
}

proctype agent_killer()
{
    if
    :: killed = 1
    :: true
    fi
}

/* --- what must hold --------------------------------------------------------------------------- */

proctype watch()
{
end:
    if
    :: atomic { believes(0) && believes(1) -> assert(handle[0] != handle[1]) }
    :: atomic { believes(0) && key != handle[0] -> assert(key == handle[0]) }
    :: atomic { believes(1) && key != handle[1] -> assert(key == handle[1]) }
    fi
}

init
{
    c_code { now.drop = getenv("DROP") ? atoi(getenv("DROP")) : 0; };
    atomic {
        run process(0);
        run process(1);
        run killer(0);
        run agent();
        run agent_killer();
        run watch()
    };
    /* When nothing moves any more. */
    timeout;
    assert(key == 0 || (key == word && lease));
    assert(word == 0 || believes(0) || believes(1));
    assert(!(waits[0] || waits[1]) || (word != 0 && !waits[owner]))
}
