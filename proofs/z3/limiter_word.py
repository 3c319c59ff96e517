"""The word of a limiter, with LOCKED and its epoch, for any number of threads and calls, checked by Z3.

It shows, of a model of src/rate/{state,shared,locked}.rs: no update of the word is lost; a decision without the lock that
succeeds, and a refusal that is returned, has read the parameters that belong to its word, and a clock that is not before
the last change of them; nothing is decided between the lock and the clock of its holder, so no earlier decision has a later
tick; no decision without the lock passes a waiter, or a limiter that is closed; and none is made during a pause, or has a
tick before its end.

`model.py` says how.

A step is one access of the word, of a parameter or of the clock. There is one holder of the lock, one thread that decides
without it and is watched from its load to its exchange (any one), and all others, whose exchanges may happen at any time.
The number of the parameters is that of the epoch to which they belong. Two parameters stand for all: a holder writes one
after the other. An epoch is a number without an end here: after eight changes a word may look the same again, which
src/rate/state.rs speaks of. Orderings of memory are not in it: they are the models of loom. The model is written by hand;
the program only checks that the functions that it names are there.
"""
from z3 import And, Bool, If, Implies, Ints, Not, Or

from model import ANY, Model, check

# Where the holder of the lock is: it has none, has set LOCKED, has read its clock, has written a parameter, has written all.
FREE, LOCKS, CHANGES, STORES, ENDS = range(5)
# Where the watched thread is: it decides nothing, has read the word, the clock, a parameter, both.
IDLE, LOADED, TIMED, HALF, READ = range(5)


# Parts of runs: the watched thread decides; the holder takes the lock, and changes the parameters.
DECIDES = ['load', 'word_and_tick', 'load, a parameter', 'load, the other parameter']
TAKES = ['lock', 'lock, the clock']
RENEWED = ['unlock, writes a parameter', 'unlock, writes the other', 'store']
RENEWS = [*TAKES, 'change', *RENEWED]
# The holder pauses the limiter, from the tick 0 until a later one; and a later holder finds that the pause is over.
PAUSES = [*TAKES, 'pause_for', *RENEWED]
IS_OVER = ['now', *TAKES, 'unlock, writes nothing', 'store']


class Word(Model):
    """The word is `locked`, `epoch` and `tat`; `first` and `second` are the epochs to which two parameters belong. `sum` is
    what the word has to be, with every update. `clock` is the time, `since` the tick of the last change of the parameters,
    `latest` that of the latest decision. The holder: `pc`, its word `own`, its tick `now`; `renewed`: it has changed the
    parameters; `shut`: somebody waits, or the limiter is closed. The watched thread: `at`, the word that it has seen in
    `epoch_seen` and `tat_seen`, its tick `tick`, its parameters `one` and `two`. `stale`: it has decided by parameters of
    another epoch or by an older tick; `passed`: somebody has decided without the lock although `shut`. `until` is the end of
    the last pause, `paused`: it goes on; `early`: somebody was admitted at a tick before `until`. `since` is also the tick at
    which a holder of the lock found the pause over."""

    promises = ('no update is lost', 'parameters and clock belong to the word', 'nobody is passed',
                'nothing is decided between the lock and its clock', 'a pause admits nothing')
    runs = {
        'lock does not set LOCKED': ('no update is lost', ['lock', 'exchange, by another']),
        'lock reads the word before it sets LOCKED': ('no update is lost', ['lock']),
        'the holder reads its clock first': ('nothing is decided between the lock and its clock',
                                             ['now', 'exchange, by another', 'lock', 'lock, the clock']),
        'a change keeps the epoch': ('parameters and clock belong to the word', [*DECIDES, *RENEWS, 'exchange']),
        'the word is stored before the parameters': ('parameters and clock belong to the word', [
            *TAKES, 'change', 'store', *DECIDES, 'exchange']),
        'a decision reads the clock first': ('parameters and clock belong to the word', [
            *TAKES, 'now', 'change', *RENEWED, *DECIDES, 'exchange']),
        'a decision reads a parameter first': ('parameters and clock belong to the word', [*DECIDES, 'exchange']),
        'an exchange compares no epoch': ('parameters and clock belong to the word', [*DECIDES, *RENEWS, 'exchange']),
        'an exchange compares no tat': ('no update is lost', [*DECIDES, 'exchange, by another', 'exchange']),
        'an exchange ignores LOCKED': ('nobody is passed', [*DECIDES, *TAKES, 'push', 'exchange']),
        'a refusal does not read the word again': ('parameters and clock belong to the word', [*DECIDES, *RENEWS, 'is_still']),
        'store unlocks in a pause': ('a pause admits nothing', [*PAUSES, 'exchange, by another']),
        'a pause keeps the epoch': ('a pause admits nothing', [
            *DECIDES, *TAKES, 'pause_for', 'unlock, writes nothing', 'store', *IS_OVER, 'exchange']),
        'a pause ends when somebody locks': ('a pause admits nothing', [
            *PAUSES, *TAKES, 'unlock, writes nothing', 'store', 'exchange, by another']),
        'the holder admits in a pause': ('a pause admits nothing', [*TAKES, 'pause_for', 'admit']),
        'store unlocks while somebody waits': ('nobody is passed', [*TAKES, 'push', 'unlock, writes nothing', 'store']),
    }
    mutants = list(runs)

    def __init__(self):
        super().__init__(['epoch', 'tat', 'first', 'second', 'sum', 'clock', 'since', 'latest', 'pc', 'own', 'now', 'at',
                          'epoch_seen', 'tat_seen', 'tick', 'one', 'two', 'until'],
                         ['locked', 'renewed', 'shut', 'stale', 'passed', 'paused', 'early'])

    def invariant(self, x):
        (epoch, tat, first, second, sum_, clock, since, latest, pc, own, now, at, epoch_seen, tat_seen, tick, one, two,
         until, locked, renewed, shut, stale, passed, paused, early) = (x[name] for name in self.names)
        # The word of the watched thread may still be the present one.
        same = And(epoch_seen == epoch, Not(renewed))
        return {
            'the holder has set LOCKED': Implies(pc != FREE, locked),
            'no update is lost': sum_ == If(pc == FREE, tat, own),
            'nobody is passed': And(Not(passed), Implies(And(pc == FREE, shut), locked)),
            'only the holder changes': Implies(Or(pc == FREE, pc == LOCKS), Not(renewed)),
            'parameters belong to the epoch': And(
                Or(first == epoch, And(renewed, first == epoch + 1, Or(pc == STORES, pc == ENDS))),
                Implies(pc == STORES, And(renewed, first == epoch + 1)),
                second == If(And(pc == ENDS, renewed), epoch + 1, epoch),
                Implies(And(pc == ENDS, renewed), first == epoch + 1)),
            'ticks are past': And(since <= clock, latest <= clock, Implies(pc >= CHANGES, now <= clock)),
            'nothing is decided between the lock and its clock': Implies(pc >= CHANGES, latest <= now),
            'what was seen is past': Implies(at != IDLE, epoch_seen <= epoch),
            'a clock after the word': Implies(And(at >= TIMED, same), And(tick >= since, tick <= clock)),
            'a first parameter of the word': Implies(And(at >= HALF, same), one == epoch_seen),
            'a second parameter of the word': Implies(And(at == READ, same), two == epoch_seen),
            'parameters and clock belong to the word': Not(stale),
            'a pause stops decisions': Implies(And(pc == FREE, paused), locked),
            'a pause is new to all who decide': Implies(paused, Or(at == IDLE, Not(same))),
            'a pause goes on until its end': Or(paused, And(until <= since, Implies(pc >= CHANGES, until <= now))),
            'a pause admits nothing': Not(early),
        }

    def first(self):
        x = self.now
        return And(x['first'] == x['epoch'], x['second'] == x['epoch'], x['sum'] == x['tat'], x['clock'] == 0,
                   x['since'] == 0, x['latest'] == 0, x['until'] == 0, x['pc'] == FREE, x['at'] == IDLE,
                   *[Not(x[name]) for name in ('renewed', 'shut', 'stale', 'passed', 'paused', 'early')])

    def steps(self, mutant=None):
        (epoch, tat, first, second, sum_, clock, since, latest, pc, own, now, at, epoch_seen, tat_seen, tick, one, two,
         until, locked, renewed, shut, stale, passed, paused, early) = (self.now[name] for name in self.names)
        step = self.step
        units, other, new = Ints('units other new')
        waits, in_word = Bool('waits'), Bool('in_word')
        state, shared, guard = (f'src/rate/{it}.rs: ' for it in ('state', 'shared', 'locked'))
        later = lambda t: If(t > latest, t, latest)
        out = {}
        out['src/time/clock.rs: now'] = step(new >= clock, clock=new)

        # The holder: `Locked::lock`, its changes, and `Locked::unlock`.
        read = other if mutant == 'lock reads the word before it sets LOCKED' else tat
        out[state + 'lock'] = step(pc == FREE, locked=locked if mutant == 'lock does not set LOCKED' else True, own=read, pc=LOCKS)
        reads = And(other <= clock, other >= since) if mutant == 'the holder reads its clock first' else other == clock
        # `Ledger::end_pause`: see `has_ended` in proofs/coq/Pauses.v.
        is_over = And(paused, Or(until <= other, mutant == 'a pause ends when somebody locks'))
        out[guard + 'lock, the clock'] = step(And(pc == LOCKS, reads), now=other, pc=CHANGES, paused=And(paused, Not(is_over)),
                                              since=If(is_over, other, since))
        # What is due has come, and is not before the end of a pause: `decided_after_the_end` in proofs/coq/Pauses.v.
        has_come = True if mutant == 'the holder admits in a pause' else until <= now
        out[guard + 'admit'] = step(And(pc == CHANGES, units >= 0, has_come), own=own + units, sum=sum_ + units,
                                    latest=later(now), early=Or(early, now < until))
        renews = mutant != 'a pause keeps the epoch'
        out['src/rate/pause.rs: pause_for'] = step(And(pc == CHANGES, other > now, other > until), until=other, paused=True,
                                                   own=new, sum=new, renewed=Or(renewed, renews), since=now)
        out['src/rate/pause.rs: resume'] = step(And(pc == CHANGES, paused), until=now, paused=False, own=new, sum=new,
                                                renewed=Or(renewed, renews), since=now)
        out[guard + 'change'] = step(pc == CHANGES, own=new, sum=new, renewed=True, since=now)
        out[guard + 'push'] = step(pc == CHANGES, shut=True)
        out[guard + 'leave'] = step(pc == CHANGES, shut=waits)
        out[guard + 'close'] = step(pc == CHANGES, shut=True)
        next_ = epoch if mutant == 'a change keeps the epoch' else epoch + 1
        publishes = dict(tat=own, epoch=If(renewed, next_, epoch), renewed=False,
                         locked=Or(And(shut, mutant != 'store unlocks while somebody waits'), Not(in_word),
                                   And(paused, mutant != 'store unlocks in a pause')))
        if mutant == 'the word is stored before the parameters':
            # They are then written while the lock is held, but LOCKED is not set.
            out[state + 'store'] = step(pc == CHANGES, pc=If(renewed, STORES, FREE), **publishes)
            out[guard + 'unlock'] = step(pc == STORES, first=epoch, second=epoch, pc=FREE)
        else:
            out[guard + 'unlock, writes nothing'] = step(And(pc == CHANGES, Not(renewed)), pc=ENDS)
            out[guard + 'unlock, writes a parameter'] = step(And(pc == CHANGES, renewed), first=epoch + 1, pc=STORES)
            out[guard + 'unlock, writes the other'] = step(pc == STORES, second=epoch + 1, pc=ENDS)
            out[state + 'store'] = step(pc == ENDS, pc=FREE, **publishes)

        # All others that decide without the lock: one of them may be the one that is watched.
        out[state + 'exchange, by another'] = step(
            And(Not(locked), units >= 0, other >= since, other <= clock), tat=tat + units, sum=sum_ + units,
            latest=later(other), passed=Or(passed, shut), early=Or(early, other < until))

        # The one that is watched: `word_and_tick`, `SharedParams::load`, and `confirm`.
        timed_first = mutant == 'a decision reads the clock first'
        out[state + 'load'] = step(And(at == IDLE, Not(locked), Implies(timed_first, other <= clock)), epoch_seen=epoch,
                                   tat_seen=tat, at=LOADED, tick=other if timed_first else tick)
        out[shared + 'word_and_tick'] = step(at == LOADED, at=TIMED, tick=tick if timed_first else clock)
        reads_first = mutant == 'a decision reads a parameter first'
        out[state + 'load, a parameter'] = step(And(at == TIMED, Implies(reads_first, other <= first)), one=other if reads_first else first,
                                                at=HALF)
        out[state + 'load, the other parameter'] = step(at == HALF, two=second, at=READ)
        same = And(Implies(mutant != 'an exchange ignores LOCKED', Not(locked)),
                   Implies(mutant != 'an exchange compares no epoch', epoch_seen == epoch),
                   Implies(mutant != 'an exchange compares no tat', tat_seen == tat))
        by_others = Or(stale, one != epoch, two != epoch, one != first, two != second, tick < since)
        out[state + 'exchange'] = step(And(at == READ, units >= 0, same), tat=tat_seen + units, sum=sum_ + units,
                                       latest=later(tick), at=IDLE, stale=by_others, passed=Or(passed, shut),
                                       early=Or(early, tick < until))
        again = True if mutant == 'a refusal does not read the word again' else And(Not(locked), epoch_seen == epoch, tat_seen == tat)
        out[state + 'is_still'] = step(And(at == READ, again), at=IDLE, stale=by_others)
        out[shared + 'confirm'] = step(at == READ, at=IDLE)
        return out


check(Word())
