"""The protocol of `Semaphore` for any number of threads, waiters, costs and limits, checked by Z3.

It shows, of a model of src/concurrency/semaphore: free and held permits add up to the limit; no step admits anybody
beyond it; when the lock is free, a waiter whose request fits, or who was closed out, is owed a visit, so no wake is lost;
the same for those who wait for idleness, each of whom is told only of a moment at which no permit was held; after `close`
nobody is admitted and nobody stays in the queue; and in the queue, numbers are served in rising order, `granted_until`
never covers a waiter that waits or was refused, and nobody passes the head.

It also shows that waiting ends, step by step. The place of a waiter never rises, and each grant, refusal or departure
before it lowers it by one. While the same head waits, a number never rises, except by a change of the limit: each permit
that returns lowers it until the head is covered, and then each step of a visit; at the last one, the head is served. Such a
visit is owed (`no waiter is lost`), and somebody holds permits while the head is not covered, unless the limit is below its
cost. So a turn comes if permits
return, the lock is not refused for ever to the one who visits, and wakers wake. A closed semaphore has no permits to wait
for.

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
# What has become of a waiter for idleness that we watch: any one.
ABSENT, ASKS, TOLD = range(3)
# The steps after which another waiter may be the head.
SERVES_THE_HEAD = ['advance, grants', 'advance, refuses', 'leave, the head', 'leave, the head, advances', 'leave, the last one']
CHANGES_THE_LIMIT = ['set_permits', 'forget_permits', 'reject_impossible']
VISITS = ['visit', 'advance', 'advance, stops', 'settle']
RETURNS = ['give', 'leave, with a grant']


class Permits(Model):
    """Permits: f are free (below 0 after the limit was lowered), L is the limit, H are held, hc is the cost of the head, V
    visits are owed. C, Q, N are the flags CLOSED, QUEUED and NOTICE; q: the queue has a head; idle: somebody waits for
    idleness. sf, sQ, sN, sC are what `advance` has seen, lf is what is left of sf, n is the cost of who joins; some: this
    advance has served somebody. Of those who wait for idleness, `idler` is what has become of any one; noted: `idle_until`
    covers it; was_idle: no permit was held at some moment since it asked."""

    mutants = ['try_take ignores QUEUED', 'give looks before it adds', 'announce does not verify', 'leave never advances',
               'idle reads before it asks', 'a full batch is forgotten', 'settle stores what it saw',
               'grants ignore the cost', 'join pushes without a flag', 'set_permits keeps what is free',
               'forget_permits keeps the limit', 'settle keeps what it granted', 'close wakes nobody',
               'settle clears QUEUED in any case', 'try_take ignores CLOSED', 'join ignores CLOSED',
               'advance grants after close', 'close is forgotten by advance', 'join takes beside the queue',
               'a batch is full before it serves', 'a visit stops at a head that fits',
               'an idler is told while permits are held', 'idle_until covers who asks later', 'a noted idler waits for the next moment']
    promises = ('conservation', 'no waiter is lost', 'no idler is lost', 'close leaves no waiter', 'a noted idler is not lost',
                'an idler is told of idleness', 'a head waits for a holder')

    def __init__(self):
        super().__init__(['f', 'L', 'H', 'hc', 'V', 'n', 'sf', 'lf', 'pc', 'idler'],
                         ['C', 'Q', 'N', 'q', 'idle', 'sQ', 'sN', 'sC', 'full', 'some', 'noted', 'was_idle'])

    def invariant(self, x):
        (f, L, H, hc, V, n, sf, lf, pc, idler, C, Q, N, q, idle, sQ, sN, sC, full, some, noted,
         was_idle) = (x[name] for name in self.names)
        at = lambda *places: Or(*[pc == place for place in places])
        return {
            'conservation': f + H == L,
            'ranges': And(H >= 0, L >= 0, V >= 0, Implies(q, hc >= 1), Implies(at(JOINS, ANNOUNCES), n >= 1),
                          pc >= FREE, pc <= SETTLES),
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
                                                          Or(Not(idle), full, lf != L), Implies(noted, full))),
            'a closed one grants nothing': Implies(And(at(ADVANCES, SETTLES), sC), lf == sf),
            'close leaves no waiter': Implies(And(C, pc == FREE, V == 0), Not(q)),
            'a head waits for a holder': Implies(And(pc == FREE, q, Not(C), hc > f, hc <= L), H > 0),
            'an idler is in its queue': And(idler >= ABSENT, idler <= TOLD, Implies(idler == ASKS, idle),
                                            Implies(noted, idler == ASKS)),
            'a noted idler is not lost': Implies(And(at(FREE, JOINS, ANNOUNCES, ASKED), noted), V > 0),
            'what is noted was idle': And(Implies(noted, was_idle),
                                          Implies(And(pc == ADVANCES, sf == L, idler == ASKS), was_idle)),
            'an idler is told of idleness': Implies(idler == TOLD, was_idle),
        }

    def first(self):
        x = self.now
        return And(x['f'] == x['L'], x['L'] >= 0, x['H'] == 0, x['V'] == 0, x['pc'] == FREE,
                   x['idler'] == ABSENT, *[Not(x[name]) for name in ('C', 'Q', 'N', 'q', 'idle', 'noted')])

    def until_served(self, x):
        """A number that is lowered until the head is served: more than 6 by the permits that it lacks, and then the steps of the
        visit. An advance that saw too little, or whose batch may be full, has to end first."""
        f, hc, sf, lf, pc, C, sC, some = (x[name] for name in ('f', 'hc', 'sf', 'lf', 'pc', 'C', 'sC', 'some'))
        free = If(Or(pc == ADVANCES, pc == SETTLES), f - (sf - lf), f)
        lacks = If(Or(C, hc <= free), 0, hc - free)
        serves = And(pc == ADVANCES, Not(some), Or(sC, hc <= lf))
        visit = If(serves, 1, If(pc == ADVANCES, 5, If(pc == SETTLES, 4, If(pc == ENTERS, If(some, 6, 2), 3))))
        return If(lacks > 0, 6 + lacks, visit), lacks

    def of_step(self, name):
        now, then, function = self.now, self.then, name.split(': ')[1]
        goals = {'nobody is admitted beyond the limit': Not(And(then['H'] > now['H'], then['f'] < 0)),
                 'nobody is admitted after close': Implies(now['C'], then['H'] <= now['H']),
                 'a noted idler stays noted': Implies(now['noted'], Or(then['noted'], then['idler'] != ASKS))}
        if function not in SERVES_THE_HEAD + CHANGES_THE_LIMIT:
            (before, lacks), (after, _) = self.until_served(now), self.until_served(then)
            same = And(now['q'], then['q'])
            goals['what the head waits for never grows'] = Implies(same, after <= before)
            if function in VISITS:
                goals['each step of a visit comes nearer'] = Implies(And(same, lacks == 0), after < before)
            if function in RETURNS:
                goals['each return comes nearer'] = Implies(And(same, lacks > 0), after < before)
        return goals

    def steps(self, mutant=None):
        s, t, step = self.now, self.then, self.step
        (f, L, H, hc, V, n, sf, lf, pc, idler, C, Q, N, q, idle, sQ, sN, sC, full, some, noted,
         was_idle) = (s[name] for name in self.names)
        m, k, new = Ints('m k new')
        other, refusable, watch = Bools('other refusable watch')
        state, protocol, resize = (f'src/concurrency/semaphore/{it}.rs: ' for it in ('permit_state', 'protocol', 'resize'))
        out = {}
        is_free = And(m >= 1, f >= m, Or(Not(C), mutant == 'try_take ignores CLOSED'),
                      Or(Not(Q), mutant == 'try_take ignores QUEUED'))
        out[state + 'try_take'] = step(is_free, f=f - m, H=H + m)
        owes = If(And(N, f > 0), V + 1, V) if mutant == 'give looks before it adds' else If(N, V + 1, V)
        out[state + 'give'] = step(And(m >= 1, H >= m), f=f + m, H=H - m, V=owes)
        out[protocol + 'visit'] = step(And(pc == FREE, V > 0), V=V - 1, some=False, pc=ENTERS)
        is_open = Or(Not(C), mutant == 'join ignores CLOSED')
        out[protocol + 'join'] = step(And(pc == FREE, m >= 1, is_open, Or(L == 0, m <= L)), n=m, pc=JOINS)
        fits = And(f >= n, Not(C), Or(Not(Q), mutant == 'join takes beside the queue'))
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
        out[protocol + 'leave, not the head, advances'] = step(And(pc == FREE, q, Not(stays)), some=False, pc=ENTERS)
        out[protocol + 'leave, the head'] = step(And(pc == FREE, q, stays, t['hc'] >= 1), hc=ANY, pc=FREE)
        out[protocol + 'leave, the head, advances'] = step(And(pc == FREE, q, Not(stays), t['hc'] >= 1), hc=ANY, some=False, pc=ENTERS)
        out[protocol + 'leave, the last one'] = step(And(pc == FREE, q), q=False, some=False, pc=ENTERS)
        out[protocol + 'leave, with a grant'] = step(And(pc == FREE, m >= 1, H >= m), f=f + m, H=H - m, some=False, pc=ENTERS)
        now_free = f if mutant == 'set_permits keeps what is free' else f + new - L
        out[resize + 'set_permits'] = step(And(pc == FREE, new >= 0), f=now_free, L=new, some=other, pc=ENTERS)
        limit = L if mutant == 'forget_permits keeps the limit' else L - k
        out[resize + 'forget_permits'] = step(And(pc == FREE, k >= 0, k <= If(f > 0, f, 0)), f=f - k, L=limit, some=other, pc=ENTERS)
        out[resize + 'reject_impossible'] = step(pc == FREE, some=other, pc=ENTERS)
        out[state + 'close'] = step(pc == FREE, C=True, some=False, pc=FREE if mutant == 'close wakes nobody' else ENTERS)
        reads_first = mutant == 'idle reads before it asks'
        late = {'N': True} if reads_first else {}
        out[state + 'ask_notice'] = step(pc == FREE, N=N if reads_first else True, pc=ASKED)
        asks = And(watch, idler == ABSENT)
        covered = mutant == 'idle_until covers who asks later'
        out[protocol + 'must_wait'] = step(And(pc == ASKED, f < L), idle=True, pc=FREE, idler=If(asks, ASKS, idler),
                                           was_idle=And(was_idle, Not(asks)), noted=Or(noted, And(asks, covered)), **late)
        # One that need not wait is told at once.
        out[protocol + 'must_wait, not'] = step(And(pc == ASKED, Not(f < L)), some=False, pc=ENTERS, idler=If(asks, TOLD, idler),
                                                was_idle=If(asks, H == 0, was_idle), **late)
        stays = Implies(And(idler == ASKS, Not(watch)), t['idle'])
        out['src/concurrency/idle.rs: drop'] = step(And(pc == FREE, idle, stays), idle=ANY, some=False, pc=ENTERS,
                                                     idler=If(And(watch, idler == ASKS), ABSENT, idler), noted=And(noted, Not(watch)))
        closed = False if mutant == 'close is forgotten by advance' else C
        out[protocol + 'advance'] = step(pc == ENTERS, sf=f, lf=f, sQ=Q, sN=N, sC=closed, pc=ADVANCES,
                                         was_idle=Or(was_idle, And(idler == ASKS, H == 0)))
        covers = And(lf > 0) if mutant == 'grants ignore the cost' else hc <= lf
        is_open = Or(Not(sC), mutant == 'advance grants after close')
        out[protocol + 'advance, grants'] = step(And(pc == ADVANCES, q, is_open, covers, behind), lf=lf - hc, q=ANY, hc=ANY, some=True)
        out[protocol + 'advance, refuses'] = step(And(pc == ADVANCES, q, Or(sC, And(refusable, L != 0)), behind), q=ANY, hc=ANY, some=True)
        # A batch is full of those whom it serves; one that is full of idlers has served the waiters before them.
        no_more = Or(Not(q), And(Not(sC), hc > lf), mutant == 'a visit stops at a head that fits')
        stops = Or(no_more, And(t['full'], Or(some, mutant == 'a batch is full before it serves')))
        is_idle = lf > 0 if mutant == 'an idler is told while permits are held' else lf == L
        notes = Or(And(noted, mutant != 'a noted idler waits for the next moment'), And(idler == ASKS, is_idle))
        tells = And(notes, Or(Not(t['full']), watch))
        idlers = And(Implies(t['idle'], idle), Implies(And(lf == L, Not(t['full'])), Not(t['idle'])),
                     Implies(And(idler == ASKS, Not(tells)), t['idle']))
        out[protocol + 'advance, stops'] = step(And(pc == ADVANCES, stops, idlers), full=ANY, idle=ANY, pc=SETTLES,
                                                idler=If(tells, TOLD, idler), noted=And(notes, Not(tells)))
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
    number of any one waiter, `is` what has become of it. `length` is the number of waiters, `place` the number of those before
    the one that we watch, while it waits. All steps but `look` are under the lock."""

    mutants = ['newcomers go to the front', 'advance grants another than the head', 'granted_until covers refusals',
               'granted_until is what was refused', 'a number is given twice', 'look counts the next one too',
               'a head that must wait goes to the end', 'a grant to the head leaves it in the queue']
    promises = ('served in rising order', 'granted_until covers no waiter', 'granted_until covers no refusal',
                'nobody passes a waiter', 'a wait ends by a grant only if granted', 'a place of 0 is the head')

    def __init__(self):
        super().__init__(['next', 'head', 'until', 'granted', 'found', 'w', 'is', 'by', 'length', 'place'],
                         ['q', 'kept', 'inside'])

    def invariant(self, x):
        next_, head, until, granted, found, w, is_, by, length, place, q, kept, inside = (x[name] for name in self.names)
        return {
            'ranges': And(next_ >= 1, until >= 0, granted >= until, found >= 0, is_ >= ABSENT, is_ <= GONE, by >= 0),
            'numbers rise': And(granted < next_, Implies(q, And(head >= 1, head < next_)), Implies(is_ != ABSENT, And(w >= 1, w < next_))),
            'the head is the first': Implies(is_ == WAITS, And(q, head <= w)),
            'a place of 0 is the head': And(length >= 0, q == (length > 0), Implies(is_ == WAITS, And(
                place >= 0, place < length, (place == 0) == (head == w)))),
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
        return And(x['next'] == 1, x['length'] == 0, x['until'] == 0, x['granted'] == 0, x['found'] == 0, x['is'] == ABSENT, x['by'] == 0,
                   Not(x['q']), Not(x['kept']), Not(x['inside']))

    def of_step(self, name):
        now, then = self.now, self.then
        waits = And(now['is'] == WAITS, then['is'] == WAITS)
        # A waiter that polls finds a grant only if it was granted.
        goals = {'no refusal becomes a grant': Not(And(now['is'] == REFUSED, then['is'] == GRANTED)),
                 'a place never rises': Implies(waits, then['place'] <= now['place'])}
        if name.split(': ')[1] in ('advance, grants', 'advance, refuses', 'leave, before it'):
            goals['each one that goes before it lowers its place'] = Implies(waits, then['place'] == now['place'] - 1)
        return goals

    def steps(self, mutant=None):
        s, t, step = self.now, self.then, self.step
        next_, head, until, granted, found, w, is_, by, length, place, q, kept, inside = (s[name] for name in self.names)
        watch, last = Bool('watch'), length - 1
        protocol, queue = 'src/concurrency/semaphore/protocol.rs: ', 'src/wait_queue/mod.rs: '
        out = {}
        number = next_ - 1 if mutant == 'a number is given twice' else next_
        watched = And(watch, is_ == ABSENT)
        to_front = mutant == 'newcomers go to the front'
        first = True if to_front else Not(q)
        behind_all = If(watched, length, If(to_front, place + 1, place))
        out[protocol + 'join'] = step(Not(inside), next=next_ + 1, length=length + 1, place=behind_all, q=True, head=If(first, number, head),
                                      w=If(watched, number, w), **{'is': If(watched, WAITS, is_)})
        # What is behind the head is arbitrary, but has rising numbers; and the watched waiter, if it waits, is in it at its place.
        at_its_place = Implies(t['is'] == WAITS, (t['head'] == w) == (t['place'] == 0))
        rest = Implies(t['q'], And(t['head'] > head, t['head'] < next_, Implies(t['is'] == WAITS, t['head'] <= w), at_its_place))
        there = And(Implies(t['is'] == WAITS, t['q']), t['q'] == (t['length'] > 0))
        out[protocol + 'settle'] = step(Not(inside), inside=True, found=0)
        is_head = And(is_ == WAITS, w == head)
        if mutant == 'advance grants another than the head':
            behind = Int('behind')
            out[protocol + 'advance, grants'] = step(
                And(inside, q, behind > head, behind < next_), granted=behind, found=behind,
                by=If(And(is_ == WAITS, w < behind), by + 1, by), **{'is': If(And(is_ == WAITS, w == behind), GRANTED, is_)})
        else:
            out[protocol + 'advance, grants'] = step(
                And(inside, q, rest, there), granted=head, found=head, q=ANY, head=ANY, length=last,
                place=place if mutant == 'a grant to the head leaves it in the queue' else place - 1,
                by=If(And(is_ == WAITS, w < head), by + 1, by), **{'is': If(is_head, GRANTED, is_)})
        found_by_refusal = head if mutant == 'granted_until is what was refused' else found
        out[protocol + 'advance, refuses'] = step(And(inside, q, rest, there), kept=True, found=found_by_refusal, q=ANY, head=ANY,
                                                  length=last, place=place - 1,
                                                  **{'is': If(is_head, REFUSED, is_)})
        stores = found > 0 if mutant == 'granted_until covers refusals' else And(found > 0, Not(kept))
        ends = dict(until=If(stores, found, until), inside=False, found=0)
        if mutant == 'a head that must wait goes to the end':
            out[protocol + 'advance, ends'] = step(And(inside, is_head, length > 1, t['head'] > head, t['head'] < next_),
                                                   w=next_, next=next_ + 1, place=last, head=ANY, **ends)
        else:
            out[protocol + 'advance, ends'] = step(inside, **ends)
        refused = And(watch, is_ == WAITS)
        lower = Implies(t['q'], And(t['head'] >= head, t['head'] < next_, Implies(t['is'] == WAITS, t['head'] <= w), at_its_place))
        # Some are refused, of whom some were before the one that we watch.
        all_, before = Ints('all before')
        some = And(all_ >= 1, all_ <= length, before >= 0, before <= all_, Implies(t['is'] == WAITS, And(
            before <= place, all_ - before < length - place)))
        out['src/concurrency/semaphore/resize.rs: refuse_impossible'] = step(
            And(Not(inside), q, lower, there, some), kept=True, q=ANY, head=ANY, length=length - all_, place=place - before,
            **{'is': If(refused, REFUSED, is_)})
        out[protocol + 'leave, before it'] = step(And(Not(inside), q, is_ == WAITS, place > 0, lower, there), head=ANY, length=last,
                                                  place=place - 1)
        out[protocol + 'leave'] = step(And(Not(inside), q, Or(refused, is_ != WAITS, place < last), lower, there), q=ANY, head=ANY,
                                       length=last, **{'is': If(refused, GONE, is_)})
        covered = until + 1 if mutant == 'look counts the next one too' else until
        out[protocol + 'look'] = step(And(is_ != ABSENT, w <= covered), **{'is': If(is_ == GONE, GONE, GRANTED)})
        others = Bool('others')
        out[protocol + 'collect'] = step(And(Not(inside), is_ == REFUSED), kept=others, **{'is': GONE})
        out[queue + 'collect'] = step(And(Not(inside), kept, is_ != REFUSED), kept=others)
        return out


check(Permits(), Order())
