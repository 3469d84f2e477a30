/* A slot and its observers: what is read under the sequence count is of one lease, and a check word
 * is never ahead of what it is about; also when the writer is killed at any step and another agent
 * goes on.
 *
 * The writer (`agent/broker/locks/names.c:name_publish`, `shm/slot.c`) gives the slot from lease 1 to
 * lease 2 and then to lease 3. A and B stand for the fields, a text for the name: each carries the
 * number of its lease. There are two places for texts, and a lease takes the one that the lease before
 * it does not have. Killed, the agent is followed by one that writes the lease anew from its journal.
 *
 * Rules; a model without one of them must fail:
 */
#define DROP_ENTER          1 /* `shm/row.h:hf_seq_enter`: the count is odd before anything changes */
#define DROP_FIELD_RELEASE  2 /* `shm/slot.c:hf_slot_publish`: fields are out after the odd count */
#define DROP_LEAVE_RELEASE  3 /* `shm/row.h:hf_seq_leave`: fields are out before the even count */
#define DROP_ODD            4 /* `shm/row.h:hf_seq_begin`: nothing is copied under an odd count */
#define DROP_SAME           5 /* `shm/row.h:hf_seq_same`: the count is looked at again */
#define DROP_BEGIN_ACQUIRE  6 /* `shm/row.h:hf_seq_begin`: the count is read before the fields */
#define DROP_FIELD_ACQUIRE  7 /* `shm/slot.c:slot_read_copy_slot`: the fields are read before the count is again */
#define DROP_TEXT_FIRST     8 /* `shm/text_pool.c:hf_text_put`: the text stands before a slot leads to it */
#define DROP_TEXT_ELSEWHERE 9 /* `agent/broker/locks/names.c:name_publish`: the old text goes after the new is published */
#define DROP_WORD_LAST      10 /* `shm/slot.c:hf_slot_publish`: the word is out after the fields */
#define DROP_WITHDRAW       11 /* `shm/slot.c:hf_slot_withdraw`: the word of a lease goes before the next comes */
#define DROP_WRITE_ANEW     12 /* `agent/broker/locks/readopt.c:readopt_old_text_of`: a torn slot is not made readable as it is */
#define DROP_RESERVE        13 /* `agent/broker/locks/readopt.c:readopt_reserve_texts`: no text is put over one that is still read */

c_decl {
    \#include <stdlib.h>
}

#define SEQ     0
#define A       1
#define B       2
#define OFF     3
#define TEXT    4 /* two places */
#define WORD    6
#define N_WORDS 7

#include "weak.pml"

#define AGENT    0
#define OBSERVER 1

byte drop; /* the rule that this run is without; 0 none */
bit killed;
byte seq;  /* what the agent stored last; in the slot when one is followed by another */

inline field(w, v)
{
    if
    :: drop == DROP_FIELD_RELEASE -> STORE(AGENT, w, v, RELAXED)
    :: else -> STORE(AGENT, w, v, RELEASE)
    fi
}

inline enter()
{
    if
    :: drop != DROP_ENTER ->
       seq = seq | 1;
       STORE(AGENT, SEQ, seq, RELAXED)
    :: else
    fi
}

inline leave()
{
    seq = seq + 1 + (drop == DROP_ENTER);
    if
    :: drop == DROP_LEAVE_RELEASE -> STORE(AGENT, SEQ, seq, RELAXED)
    :: else -> STORE(AGENT, SEQ, seq, RELEASE)
    fi
}

inline put_text(lease, place)
{
    if
    :: drop == DROP_TEXT_FIRST -> STORE(AGENT, TEXT + place, lease, RELAXED)
    :: else -> STORE(AGENT, TEXT + place, lease, RELEASE)
    fi
}

/* Up to the check word. */
inline publish_fields(lease, place)
{
    enter();
    field(A, lease);
    field(OFF, place);
    field(B, lease);
    leave()
}

inline raise_word(lease)
{
    STORE(AGENT, WORD, lease, RELEASE)
}

inline withdraw()
{
    STORE(AGENT, WORD, 0, RELEASE);
    FLUSH(AGENT)
}

proctype agent()
{
    byte lease = 1, place = 0, next_place;

    do
    :: lease < 3 ->
       if
       :: drop != DROP_WITHDRAW -> withdraw()
       :: else
       fi;
       lease++;
       next_place = 1 - place;
       if
       :: drop == DROP_TEXT_ELSEWHERE -> next_place = place
       :: else
       fi;
       if
       :: drop == DROP_TEXT_FIRST -> skip
       :: else -> put_text(lease, next_place)
       fi;
       if
       :: drop == DROP_WORD_LAST -> raise_word(lease)
       :: else
       fi;
       publish_fields(lease, next_place);
       if
       :: drop == DROP_TEXT_FIRST -> put_text(lease, next_place)
       :: else
       fi;
       if
       :: drop != DROP_WORD_LAST -> raise_word(lease)
       :: else
       fi;
       place = next_place
    :: lease == 3 -> break
    od
}

/* kill -9 at any step of `lease` 2: what was stored comes out, and the next agent has it from its
 * journal that the lease is held. Its text pool knows which texts are read. */
proctype killed_agent()
{
    byte place;

    withdraw();
    {
        put_text(2, 1);
        publish_fields(2, 1);
        raise_word(2)
    } unless {
        killed -> FLUSH(AGENT)
    };
    FLUSH(AGENT);
    LOAD(AGENT, SEQ, seq);
    LOAD(AGENT, OFF, place);
    if
    :: drop == DROP_WRITE_ANEW && seq & 1 ->
       seq++;
       STORE(AGENT, SEQ, seq, RELEASE)
    :: else
    fi;
    /* A torn slot's text is nobody's: it cannot be read. One that stands is kept, or another place
     * taken. */
    if
    :: drop == DROP_RESERVE -> skip
    :: drop != DROP_RESERVE && !(seq & 1) -> place = 1 - place
    :: drop != DROP_RESERVE && seq & 1 -> skip
    fi;
    put_text(2, place);
    publish_fields(2, place);
    raise_word(2)
}

proctype killer()
{
    killed = 1
}

proctype observer()
{
    byte begin, again, a, b, off, text, word, after;

    LOAD(OBSERVER, WORD, word);
    if
    :: drop == DROP_BEGIN_ACQUIRE -> LOAD(OBSERVER, A, a)
    :: else
    fi;
    LOAD(OBSERVER, SEQ, begin);
    if
    :: drop == DROP_FIELD_ACQUIRE -> LOAD(OBSERVER, SEQ, again)
    :: else
    fi;
    if
    :: drop != DROP_BEGIN_ACQUIRE -> LOAD(OBSERVER, A, a)
    :: else
    fi;
    LOAD(OBSERVER, OFF, off);
    LOAD(OBSERVER, B, b);
    LOAD(OBSERVER, TEXT + off, text);
    if
    :: drop != DROP_FIELD_ACQUIRE -> LOAD(OBSERVER, SEQ, again)
    :: else
    fi;
    if
    :: (!(begin & 1) || drop == DROP_ODD) && (begin == again || drop == DROP_SAME) ->
       assert(a == b && text == a);
       /* Who saw the word before sees that lease, or a later one: by its generation. */
       assert(word == 0 || a >= word);
       /* A lease that can be seen as the next is not there while the word is of the one before. */
       LOAD(OBSERVER, WORD, after);
       assert(after == 0 || after >= a)
    :: else
    fi
}

init
{
    c_code { now.drop = getenv("DROP") ? atoi(getenv("DROP")) : 0; };
    atomic {
        shared[A] = 1;
        shared[B] = 1;
        shared[TEXT] = 1;
        shared[WORD] = 1;
        if
        :: run agent()
        :: run killed_agent();
           run killer()
        fi;
        run observer();
        run memory()
    }
}
