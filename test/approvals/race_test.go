package approvals

import (
	"net/http"
	"sync"
	"time"

	"agentruntime/test/rig"
)

// racer is one of several who want something of an approval at the same moment.
type racer struct {
	what   string
	do     func() rig.Answer
	answer rig.Answer
	// counted is called where the service says that it did it.
	counted func()
}

// stepRace has some of those who can want something of an approval act at once.
func (w *world) stepRace(s step) {
	a, some := choose(w.pending(), s.a)
	if !some {
		return
	}
	began := time.Now()
	var racers []*racer
	for i, r := range w.racers(a, s, began) {
		if s.b>>i&1 == 1 {
			racers = append(racers, r)
		}
	}
	var all sync.WaitGroup
	for _, r := range racers {
		all.Go(func() { r.answer = r.do() })
	}
	all.Wait()
	for _, r := range racers {
		w.say("at once about %s: %s: %s", a.ID, r.what, w.outcome(r.answer))
		if done(r.answer) && r.counted != nil {
			r.counted()
		}
	}
}

// racers are all who can take part, the deciders first.
func (w *world) racers(a approval, s step, began time.Time) []*racer {
	var list []*racer
	decides := func(p *person, decision string, body map[string]any) {
		list = append(list, &racer{
			what:    p.email[:12] + " " + decision + "s",
			do:      func() rig.Answer { return p.client.Decide(a.ID, decision, body) },
			counted: func() { w.acked = append(w.acked, ack{a.ID, p.id, decision}) },
		})
	}
	one, _ := choose(w.people, s.c)
	other, _ := choose(w.people, s.c+1)
	decides(w.owner, "approve", map[string]any{})
	decides(w.owner, "approve", map[string]any{})
	decides(one, "approve", map[string]any{})
	decides(other, "reject", map[string]any{"reason": "at once"})
	decides(other, "approve", map[string]any{"edited_args": map[string]any{"id": a.ExecutionID, "amount": s.c + 2000}})
	list = append(list, &racer{
		what: "cancel",
		do: func() rig.Answer {
			return w.owner.client.Do(http.MethodPost, "/v1/executions/"+a.ExecutionID+"/cancel", nil)
		},
		counted: func() { w.cancelled = append(w.cancelled, a.ExecutionID) },
	}, &racer{what: "import", do: func() rig.Answer {
		return w.owner.client.Do(http.MethodPost, "/v1/providers",
			map[string]any{"slug": "desk", "name": "desk", "domain": "test", "base_url": w.desk.url, "openapi": document(s.c % 3)})
	}})
	if id, some := choose(w.policies, s.c); some {
		p := w.drawn(s)
		r := &racer{what: "change policy " + id, do: func() rig.Answer {
			return w.owner.client.ReplacePolicy(id, p.body("policy "+id))
		}}
		// Until it is known to be made it may be, at any time from now on.
		w.past.note(policyOf(id), p.holds(), began, false)
		r.counted = func() { w.past.note(policyOf(id), p.holds(), began, true) }
		list = append(list, r)
	}
	return list
}
