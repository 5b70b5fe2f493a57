package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
)

const (
	// writtenAtOnce is the most records of one transaction, and writtenEach the most of one
	// tenant in it: tenants take turns.
	writtenAtOnce = 1000
	writtenEach   = 200
	// flushLimit is how long a stopping process tries to write what is left.
	flushLimit = 10 * time.Second
)

// Run writes records until ctx ends, then what is left.
func (j *Journal) Run(ctx context.Context) {
	tick := time.NewTicker(j.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
			defer cancel()
			if err := j.Flush(last); err != nil {
				j.d.Log.ErrorContext(last, "records of repeats and refusals are lost", "records", j.waiting(), "error", err)
			}
			return
		case <-tick.C:
		case <-j.wake:
		}
		j.gathered(false)
		if err := j.writeAll(ctx); err != nil && ctx.Err() == nil {
			j.d.Log.WarnContext(ctx, "records of repeats and refusals not written, trying again", "error", err)
		}
	}
}

// Flush writes all records, also those of calls that are still counted.
func (j *Journal) Flush(ctx context.Context) error {
	j.gathered(true)
	return j.writeAll(ctx)
}

func (j *Journal) waiting() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records
}

// gathered queues the records of the calls that were counted for long enough, or of all, and
// counts from 0 again. A call that had none like it is forgotten. Where there is no space for
// a record, its calls are counted on.
func (j *Journal) gathered(all bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.d.Now()
	for range len(j.due) {
		g := j.due[0]
		if !all && now.Sub(g.began) < j.cfg.Gather {
			return
		}
		j.due = j.due[1:]
		if g.count == 0 {
			delete(j.kept, g.like)
			if j.keptEach[g.like.tenant]--; j.keptEach[g.like.tenant] == 0 {
				delete(j.keptEach, g.like.tenant)
			}
			continue
		}
		j.due = append(j.due, g)
		if r := g.note.written(g.count, g.first, g.last); all || j.fits(r) {
			j.queue(r)
			g.count, g.began = 0, now
		}
	}
}

// writeAll writes until nothing waits. Where one tenant's records cannot be written, it
// still writes those of the others.
func (j *Journal) writeAll(ctx context.Context) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	for {
		turn := j.turn()
		if len(turn) == 0 {
			return nil
		}
		err := j.write(ctx, turn)
		if err == nil {
			j.written(turn)
			continue
		}
		if fault.HasCode(err, fault.CodeServiceUnavailable) || ctx.Err() != nil {
			return err
		}
		if err := j.writeApart(ctx, turn); err != nil {
			return err
		}
	}
}

// writeApart writes each tenant's records in a transaction of their own, and where Postgres
// refuses what one of them contains, each record. The error is the first that may be gone the
// next time.
func (j *Journal) writeApart(ctx context.Context, turn []share) (first error) {
	for _, s := range turn {
		err := j.write(ctx, []share{s})
		switch {
		case err == nil:
			j.written([]share{s})
		case db.IsDataRefused(err):
			err = j.writeSingly(ctx, s)
		}
		first = cmp.Or(first, err)
	}
	return first
}

// writeSingly writes a tenant's records one by one. It drops those whose content Postgres
// refuses: they would be refused for ever, and keep the others from being written.
func (j *Journal) writeSingly(ctx context.Context, s share) error {
	for _, r := range s.records {
		one := []share{{s.tenant, []Record{r}}}
		err := j.write(ctx, one)
		switch {
		case db.IsDataRefused(err):
			// The content may be a caller's, so the log has none of it.
			j.d.Log.ErrorContext(ctx, "a record of a repeat or refusal is lost, because Postgres refuses its content",
				"record_id", r.ID, "tenant_id", s.tenant, "action", r.Action, "sqlstate", db.StateOf(err), "lost_so_far", j.lost.Add(1))
		case err != nil:
			return err
		}
		j.written(one)
	}
	return nil
}

// share are the records of one tenant in a transaction.
type share struct {
	tenant  uuid.UUID
	records []Record
}

// turn returns the records of the next transaction. They stay in the journal until they are
// written.
func (j *Journal) turn() (out []share) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, tenant := range j.order {
		records := j.pending[tenant].records
		records = records[:min(len(records), writtenEach, writtenAtOnce-n)]
		if n += len(records); len(records) == 0 {
			break
		}
		out = append(out, share{tenant, records})
	}
	return out
}

// write inserts the records in one transaction and one round trip. It becomes each tenant in
// turn, so that row-level security applies. A record that
// a lost answer left written is not written again.
func (j *Journal) write(ctx context.Context, turn []share) error {
	q, b := dbsqlc.New(), &db.Batch{}
	for _, s := range turn {
		db.QueueExec(b, q.BecomeTenant, s.tenant.String())
		p := dbsqlc.AppendAuditsParams{TenantID: s.tenant}
		for _, r := range s.records {
			p.Ids = append(p.Ids, r.ID)
			p.ActorTypes = append(p.ActorTypes, string(r.ActorType))
			p.ActorIds = append(p.ActorIds, r.ActorID)
			p.Actions = append(p.Actions, string(r.Action))
			p.Providers = append(p.Providers, r.Provider)
			p.Verbs = append(p.Verbs, r.Verb)
			p.RiskLevels = append(p.RiskLevels, r.RiskLevel)
			p.Decisions = append(p.Decisions, r.Decision)
			p.Outcomes = append(p.Outcomes, r.Outcome)
			p.SubjectTypes = append(p.SubjectTypes, string(r.SubjectType))
			p.SubjectIds = append(p.SubjectIds, r.SubjectID)
			p.ExecutionIds = append(p.ExecutionIds, r.ExecutionID)
			p.SessionIds = append(p.SessionIds, textOf(r.SessionID))
			p.RequestIds = append(p.RequestIds, r.RequestID)
			p.SourceAddrs = append(p.SourceAddrs, r.SourceAddr)
			p.Details = append(p.Details, string(r.Details))
		}
		db.QueueExec(b, q.AppendAudits, p)
	}
	return j.d.DB.Send(ctx, turn[0].tenant, b)
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// written forgets the records of a transaction, moves its tenants to the end of the line,
// and tells those who wait for space.
func (j *Journal) written(turn []share) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range turn {
		mine := j.pending[s.tenant]
		for _, r := range s.records {
			mine.bytes -= size(r)
			j.bytes -= size(r)
		}
		j.records -= len(s.records)
		mine.records = mine.records[len(s.records):]
		if len(mine.records) == 0 {
			delete(j.pending, s.tenant)
		}
	}
	served := turn[len(turn)-1].tenant
	at := slices.Index(j.order, served) + 1
	line := slices.Concat(j.order[at:], j.order[:at])
	j.order = slices.DeleteFunc(line, func(tenant uuid.UUID) bool { return j.pending[tenant] == nil })
	close(j.space)
	j.space = make(chan struct{})
}
