"""The protocol of `Semaphore` for any number of threads, waiters, costs and limits, checked by Z3.

It shows, of a model of src/concurrency/semaphore: free and held permits add up to the limit; no step admits anybody
beyond it; when the lock is free, a waiter whose request fits, or who was closed out, is owed a visit, so no wake is lost;
the same for those who wait for idleness; and in the queue, numbers are served in rising order, `granted_until` never
covers a waiter that waits or was refused, and nobody passes the head.

`model.py` says how.

A step is one atomic access of the word, or a change under the lock. A thread outside the lock has no state but the
permits that it holds (H) and a visit that it owes (V). Of the queue, the model has the head; what is behind it is
arbitrary. Orderings of memory are not in it: they are the models of loom. The model is written by hand; this program
only checks that the functions that it names are there.
"""
from z3 import And, Bool, Bools, If, Implies, Int, Ints, Not, Or

from model import ANY, Model, check


# Where the holder of the lock is.
FREE, JOINS, ANNOUNCES, ENTERS, ADVANCES, ASKED, SETTLES = range(7)


class Permits(Model):
    """Permits: f are free (below 0 after the limit was lowered), L is the limit, H are held, hc is the cost of the head, V
    visits are owed. C, Q, N are the flags CLOSED, QUEUED and NOTICE; q: the queue has a head; idle: somebody waits for
    idleness. sf, sQ, sN, sC are what `advance` has seen, lf is what is left of sf, n is the cost of who joins."""

    mutants = ['try_take ignores QUEUED', 'give looks before it adds', 'announce does not verify', 'leave never advances',
               'idle reads before it asks', 'a full batch is forgotten', 'settle stores what it saw',
               'grants ignore the cost', 'join pushes without a flag', 'set_permits keeps what is free',
               'forget_permits keeps the limit', 'settle keeps what it granted', 'close wakes nobody',
               'settle clears QUEUED in any case']
    promises = ('conservation', 'no waiter is lost', 'no idler is lost')

    def __init__(self):
        super().__init__(['f', 'L', 'H', 'hc', 'V', 'n', 'sf', 'lf', 'pc'], ['C', 'Q', 'N', 'q', 'idle', 'sQ', 'sN', 'sC', 'full'])

    def invariant(self, x):
        f, L, H, hc, V, n, sf, lf, pc, C, Q, N, q, idle, sQ, sN, sC, full = (x[name] for name in self.names)
        at = lambda *places: Or(*[pc == place for place in places])
        return {
            'conservation': f + H == L,
            'ranges': And(H >= 0, L >= 0, V >= 0, Implies(q, hc >= 1), Implies(at(JOINS, ANNOUNCES), n >= 1)),
            'QUEUED is the queue': And(Implies(at(FREE, JOINS, ANNOUNCES, ASKED), Q == q),
                                       Implies(at(ENTERS, ADVANCES, SETTLES), Implies(q, Q))),
            'NOTICE is a queue': And(Implies(at(FREE, JOINS, ANNOUNCES), N == Or(q, idle)), Implies(at(ASKED), N),
                                     Implies(at(ENTERS, ADVANCES, SETTLES), Implies(Or(q, idle), N))),
            'the holder knows the flags': Implies(at(ADVANCES, SETTLES), And(sQ == Q, sN == N, sC == C)),
            'who joins saw it open': Implies(at(JOINS, ANNOUNCES), Not(C)),
            'no waiter is lost': Implies(at(FREE, JOINS, ANNOUNCES, ASKED), Implies(q, Or(V > 0, And(Not(C), hc > f)))),
            'no idler is lost': Implies(at(FREE, JOINS, ANNOUNCES, ASKED), Implies(idle, Or(V > 0, f < L))),
            'only gives while queued': Implies(at(ADVANCES, SETTLES), And(
                sf <= L, Implies(Q, f >= sf), lf <= sf, Implies(lf < sf, And(Q, lf >= 0)))),
            'a give during an advance owes a visit': Implies(at(ADVANCES, SETTLES), Implies(And(N, f > sf), V > 0)),
            'end of an advance': Implies(at(SETTLES), And(Or(Not(q), full, And(Not(sC), hc > lf)),
                                                          Or(Not(idle), full, lf != L))),
        }

    def first(self):
        x = self.now
        return And(x['f'] == x['L'], x['L'] >= 0, x['H'] == 0, x['V'] == 0, x['pc'] == FREE,
                   *[Not(x[name]) for name in ('C', 'Q', 'N', 'q', 'idle')])

    def wrong(self):
        return And(self.then['H'] > self.now['H'], self.then['f'] < 0)

    def steps(self, mutant=None):
        s, t, step = self.now, self.then, self.step
        f, L, H, hc, V, n, sf, lf, pc, C, Q, N, q, idle, sQ, sN, sC, full = (s[name] for name in self.names)
        m, k, new = Ints('m k new')
        other, refusable = Bools('other refusable')
        state, protocol, resize = (f'src/concurrency/semaphore/{it}.rs: ' for it in ('permit_state', 'protocol', 'resize'))
        out = {}
        is_free = And(m >= 1, f >= m, Not(C)) if mutant == 'try_take ignores QUEUED' else And(m >= 1, f >= m, Not(C), Not(Q))
        out[state + 'try_take'] = step(is_free, f=f - m, H=H + m)
        owes = If(And(N, f > 0), V + 1, V) if mutant == 'give looks before it adds' else If(N, V + 1, V)
        out[state + 'give'] = step(And(m >= 1, H >= m), f=f + m, H=H - m, V=owes)
        out[protocol + 'visit'] = step(And(pc == FREE, V > 0), V=V - 1, pc=ENTERS)
        out[protocol + 'join'] = step(And(pc == FREE, m >= 1, Not(C), Or(L == 0, m <= L)), n=m, pc=JOINS)
        fits = And(f >= n, Not(C), Not(Q))
        out[protocol + 'join, takes'] = step(And(pc == JOINS, fits), f=f - n, H=H + n, pc=FREE)
        out[protocol + 'join, finds none'] = step(And(pc == JOINS, Not(fits)), pc=ANNOUNCES)
        out[protocol + 'join, a full queue'] = step(Or(pc == JOINS, pc == ANNOUNCES), pc=FREE)
        out[protocol + 'join, behind others'] = step(And(pc == ANNOUNCES, q), pc=FREE)
        alone = And(pc == ANNOUNCES, Not(q)) if mutant == 'announce does not verify' else And(pc == ANNOUNCES, Not(q), f < n)
        flag = Q if mutant == 'join pushes without a flag' else True
        out[state + 'announce'] = step(alone, Q=flag, N=True, q=True, hc=n, pc=FREE)
        out[state + 'announce, finds some'] = step(And(pc == ANNOUNCES, Not(q), f >= n), pc=JOINS)
        stays = other if mutant == 'leave never advances' else And(other, f <= 0)
        behind = Implies(t['q'], t['hc'] >= 1)
        out[protocol + 'leave, not the head'] = step(And(pc == FREE, q, stays), pc=FREE)
        out[protocol + 'leave, not the head, advances'] = step(And(pc == FREE, q, Not(stays)), pc=ENTERS)
        out[protocol + 'leave, the head'] = step(And(pc == FREE, q, stays, t['hc'] >= 1), hc=ANY, pc=FREE)
        out[protocol + 'leave, the head, advances'] = step(And(pc == FREE, q, Not(stays), t['hc'] >= 1), hc=ANY, pc=ENTERS)
        out[protocol + 'leave, the last one'] = step(And(pc == FREE, q), q=False, pc=ENTERS)
        out[protocol + 'leave, with a grant'] = step(And(pc == FREE, m >= 1, H >= m), f=f + m, H=H - m, pc=ENTERS)
        now_free = f if mutant == 'set_permits keeps what is free' else f + new - L
        out[resize + 'set_permits'] = step(And(pc == FREE, new >= 0), f=now_free, L=new, pc=ENTERS)
        limit = L if mutant == 'forget_permits keeps the limit' else L - k
        out[resize + 'forget_permits'] = step(And(pc == FREE, k >= 0, k <= If(f > 0, f, 0)), f=f - k, L=limit, pc=ENTERS)
        out[resize + 'reject_impossible'] = step(pc == FREE, pc=ENTERS)
        out[state + 'close'] = step(pc == FREE, C=True, pc=FREE if mutant == 'close wakes nobody' else ENTERS)
        reads_first = mutant == 'idle reads before it asks'
        late = {'N': True} if reads_first else {}
        out[state + 'ask_notice'] = step(pc == FREE, N=N if reads_first else True, pc=ASKED)
        out[protocol + 'must_wait'] = step(And(pc == ASKED, f < L), idle=True, pc=FREE, **late)
        out[protocol + 'must_wait, not'] = step(And(pc == ASKED, Not(f < L)), pc=ENTERS, **late)
        out['src/concurrency/idle.rs: drop'] = step(And(pc == FREE, idle, Implies(t['idle'], idle)), idle=ANY, pc=ENTERS)
        out[protocol + 'advance'] = step(pc == ENTERS, sf=f, lf=f, sQ=Q, sN=N, sC=C, pc=ADVANCES)
        covers = And(lf > 0) if mutant == 'grants ignore the cost' else hc <= lf
        out[protocol + 'advance, grants'] = step(And(pc == ADVANCES, q, Not(sC), covers, behind), lf=lf - hc, q=ANY, hc=ANY)
        out[protocol + 'advance, refuses'] = step(And(pc == ADVANCES, q, Or(sC, And(refusable, L != 0)), behind), q=ANY, hc=ANY)
        stops = Or(Not(q), t['full'], And(Not(sC), hc > lf))
        idlers = And(Implies(t['idle'], idle), Implies(And(lf == L, Not(t['full'])), Not(t['idle'])))
        out[protocol + 'advance, stops'] = step(And(pc == ADVANCES, stops, idlers), full=ANY, idle=ANY, pc=SETTLES)
        left = {'settle stores what it saw': lf, 'settle keeps what it granted': f}.get(mutant, f - (sf - lf))
        keeps = q if mutant != 'settle clears QUEUED in any case' else False
        again = V if mutant == 'a full batch is forgotten' else V + 1
        out[state + 'settle'] = step(pc == SETTLES, f=left, H=H + (sf - lf), Q=If(And(sQ, Not(keeps)), False, Q),
                                     N=If(And(sN, Not(Or(q, idle))), False, N), V=If(full, again, V), pc=FREE)
        return out


# What has become of a waiter that we watch: any one.
ABSENT, WAITS, GRANTED, REFUSED, GONE = range(5)


class Order(Model):
    """The queue of waiters: `next` is the next number, `head` that of the head, `until` is `granted_until`, `granted` the
    last number that was granted, `found` that of this advance (0: none), `kept`: a refusal is not collected. `w` is the
    number of any one waiter, `is` what has become of it. All steps but `look` are under the lock."""

    mutants = ['newcomers go to the front', 'advance grants another than the head', 'granted_until covers refusals',
               'granted_until is what was refused', 'a number is given twice', 'look counts the next one too']
    promises = ('served in rising order', 'granted_until covers no waiter', 'granted_until covers no refusal',
                'nobody passes a waiter', 'a wait ends by a grant only if granted')

    def __init__(self):
        super().__init__(['next', 'head', 'until', 'granted', 'found', 'w', 'is', 'by'], ['q', 'kept', 'inside'])

    def invariant(self, x):
        next_, head, until, granted, found, w, is_, by, q, kept, inside = (x[name] for name in self.names)
        return {
            'ranges': And(next_ >= 1, until >= 0, granted >= until, found >= 0, is_ >= ABSENT, is_ <= GONE, by >= 0),
            'numbers rise': And(granted < next_, Implies(q, And(head >= 1, head < next_)), Implies(is_ != ABSENT, And(w >= 1, w < next_))),
            'the head is the first': Implies(is_ == WAITS, And(q, head <= w)),
            'served in rising order': Implies(q, granted < head),
            'granted_until covers no waiter': Implies(is_ == WAITS, until < w),
            'granted_until covers no refusal': Implies(is_ == REFUSED, And(kept, until < w)),
            'found is granted': Implies(found > 0, And(inside, found == granted)),
            # Of those who joined before the one we watch, and wait, none is passed: `by` counts grants that passed it.
            'nobody passes a waiter': by == 0,
            'a wait ends by a grant only if granted': Implies(is_ == GRANTED, w <= granted),
        }

    def first(self):
        x = self.now
        return And(x['next'] == 1, x['until'] == 0, x['granted'] == 0, x['found'] == 0, x['is'] == ABSENT, x['by'] == 0,
                   Not(x['q']), Not(x['kept']), Not(x['inside']))

    def wrong(self):
        # A waiter that polls finds a grant only if it was granted.
        return And(self.now['is'] == REFUSED, self.then['is'] == GRANTED)

    def steps(self, mutant=None):
        s, t, step = self.now, self.then, self.step
        next_, head, until, granted, found, w, is_, by, q, kept, inside = (s[name] for name in self.names)
        watch = Bool('watch')
        protocol, queue = 'src/concurrency/semaphore/protocol.rs: ', 'src/wait_queue/mod.rs: '
        out = {}
        number = next_ - 1 if mutant == 'a number is given twice' else next_
        watched = And(watch, is_ == ABSENT)
        first = True if mutant == 'newcomers go to the front' else Not(q)
        out[protocol + 'join'] = step(Not(inside), next=next_ + 1, q=True, head=If(first, number, head),
                                      w=If(watched, number, w), **{'is': If(watched, WAITS, is_)})
        # What is behind the head is arbitrary, but has rising numbers; and the watched waiter, if it waits, is in it.
        rest = Implies(t['q'], And(t['head'] > head, t['head'] < next_, Implies(t['is'] == WAITS, t['head'] <= w)))
        there = Implies(t['is'] == WAITS, t['q'])
        out[protocol + 'settle'] = step(Not(inside), inside=True, found=0)
        is_head = And(is_ == WAITS, w == head)
        if mutant == 'advance grants another than the head':
            behind = Int('behind')
            out[protocol + 'advance, grants'] = step(
                And(inside, q, behind > head, behind < next_), granted=behind, found=behind,
                by=If(And(is_ == WAITS, w < behind), by + 1, by), **{'is': If(And(is_ == WAITS, w == behind), GRANTED, is_)})
        else:
            out[protocol + 'advance, grants'] = step(
                And(inside, q, rest, there), granted=head, found=head, q=ANY, head=ANY,
                by=If(And(is_ == WAITS, w < head), by + 1, by), **{'is': If(is_head, GRANTED, is_)})
        found_by_refusal = head if mutant == 'granted_until is what was refused' else found
        out[protocol + 'advance, refuses'] = step(And(inside, q, rest, there), kept=True, found=found_by_refusal, q=ANY, head=ANY,
                                                  **{'is': If(is_head, REFUSED, is_)})
        stores = found > 0 if mutant == 'granted_until covers refusals' else And(found > 0, Not(kept))
        out[protocol + 'advance, ends'] = step(inside, until=If(stores, found, until), inside=False, found=0)
        refused = And(watch, is_ == WAITS)
        lower = Implies(t['q'], And(t['head'] >= head, t['head'] < next_, Implies(t['is'] == WAITS, t['head'] <= w)))
        out['src/concurrency/semaphore/resize.rs: refuse_impossible'] = step(
            And(Not(inside), q, lower, there), kept=True, q=ANY, head=ANY, **{'is': If(refused, REFUSED, is_)})
        out[protocol + 'leave'] = step(And(Not(inside), q, lower, there), q=ANY, head=ANY, **{'is': If(refused, GONE, is_)})
        covered = until + 1 if mutant == 'look counts the next one too' else until
        out[protocol + 'look'] = step(And(is_ != ABSENT, w <= covered), **{'is': If(is_ == GONE, GONE, GRANTED)})
        others = Bool('others')
        out[protocol + 'collect'] = step(And(Not(inside), is_ == REFUSED), kept=others, **{'is': GONE})
        out[queue + 'collect'] = step(And(Not(inside), kept, is_ != REFUSED), kept=others)
        return out


check(Permits(), Order())
