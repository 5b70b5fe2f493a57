package execution

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/event"
)

const (
	// lookEvents is how many events of each wait one look returns.
	lookEvents = 50
	// eventPrefix begins the name of an event. The step machine uses the same names for those that it
	// stores.
	eventPrefix = "event:"
)

// Look writes what steps have done, and returns what others want of the execution: in two round
// trips where it waits for events, otherwise in one. Events are read after the waits were
// committed. So one that is complete before is found here, and one that is complete later by Tell.
func (s *people) Look(ctx context.Context, in flow.MapLook) (flow.MapNews, error) {
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return flow.MapNews{}, err
	}
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return flow.MapNews{}, fmt.Errorf("execution: %w", err)
	}
	b := &db.Batch{}
	if err := s.steps.queueAll(ctx, b, e, in.MapWrites); err != nil {
		return flow.MapNews{}, err
	}
	// Before the rest is read: what is written later has its own nudge.
	db.QueueExec(b, s.q.ReadMapNews, dbsqlc.ReadMapNewsParams{TenantID: e.TenantID, ID: e.ID})
	row := db.Queue(b, s.q.MapNews, dbsqlc.MapNewsParams{TenantID: e.TenantID, ID: e.ID})
	signals := s.queueSignals(b, in)
	waits := db.Queue(b, s.q.ListMapWaits, dbsqlc.ListMapWaitsParams{TenantID: e.TenantID, Execution: e.ID})
	failpoint.Hit("before_map_look", e.ID)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return flow.MapNews{}, fmt.Errorf("execution: look: %w", err)
	}
	defer failpoint.Hit("after_map_look", e.ID)
	out := newsOf(&row.Value, in.Attempt)
	if out.Over {
		return out, nil
	}
	if len(in.Asks) > 0 {
		if out.Decisions, err = s.decisionsForLook(ctx, e, in); err != nil {
			return flow.MapNews{}, err
		}
	}
	if err := addSignals(&out, key, e.TenantID, signals.Value); err != nil {
		return flow.MapNews{}, err
	}
	out.More = max(in.After, out.Looked) < int64(row.Value.Signals)
	open := slices.DeleteFunc(waits.Value, func(w dbsqlc.ListMapWaitsRow) bool { return slices.Contains(in.Ended, w.Path) })
	if len(open) == 0 {
		return out, nil
	}
	return out, s.addEvents(ctx, &out, in, open)
}

// addEvents adds the events to the news that steps wait for.
func (s *people) addEvents(ctx context.Context, news *flow.MapNews, in flow.MapLook, rows []dbsqlc.ListMapWaitsRow) error {
	waits := make([]event.Wait, len(rows))
	for i, row := range rows {
		after := in.Places[row.Path]
		if after == "" {
			after = row.Since + ":" + uuid.Max.String()
		}
		place, err := event.ParseText(after)
		if err != nil {
			return fmt.Errorf("execution: %w", err)
		}
		waits[i] = event.Wait{Type: event.Type(row.Type), Correlate: db.Text(row.Correlate), After: place}
	}
	found, err := s.d.Events.Awaited(ctx, in.TenantID, waits, lookEvents)
	if err != nil {
		return err
	}
	news.Places = map[string]string{}
	bytes := 0
	for i, f := range found {
		path, iteration, _ := strings.Cut(rows[i].Path, "@")
		at := waits[i].After
		for _, e := range f.Events {
			if bytes >= lookBytes {
				f.More = true
				break
			}
			at = e.Place
			id, body := event.PublicID(e.ID), e.AsWritten()
			if body == nil || slices.Contains(in.Seen[path], id) {
				continue
			}
			value := newsValue(eventPrefix+id, body)
			bytes += len(value.JSON)
			news.Arrived = append(news.Arrived, stepmachine.EventArrived{Ref: stepmachine.Ref{Path: path, Iteration: iteration}, ID: id, Event: value})
		}
		if !f.More {
			at = f.Place
		}
		news.More = news.More || f.More
		if at != waits[i].After {
			news.Places[rows[i].Path] = at.Text()
		}
	}
	return nil
}

const (
	// TellEvery is the pause between two looks for events that executions wait for.
	TellEvery = 250 * time.Millisecond

	tellTenants = 1000 // in one pass
	tellPage    = 1000 // events of a tenant in one transaction
	tellAtOnce  = 16   // workflows that are told at the same time
)

// Tell tells the executions that wait for events which have become complete. Any number of
// processes may do so at once: each tenant is looked after by one at a time.
func (s *people) Tell(ctx context.Context) error {
	due, err := s.q.WatchesDue(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), tellTenants)
	if err != nil {
		return fmt.Errorf("execution: look for awaited events: %w", err)
	}
	for _, tenant := range due {
		for more := true; more; {
			told, err := s.q.TellMapWaits(ctx, s.d.DB.Tenant(tenant), dbsqlc.TellMapWaitsParams{TenantID: tenant, Most: tellPage, Now: s.d.Now()})
			if err != nil {
				return fmt.Errorf("execution: tell of events: %w", err)
			}
			s.workflows.nudgeAll(ctx, told.Workflows)
			more = told.More
		}
	}
	return nil
}

// unreadAfter is how long news may be unread before its workflow is told again.
const unreadAfter = 5 * time.Second

// SweepNews tells workflows again that have not read their news. The next pass goes on where it
// stopped. One process makes one pass at a time.
func (s *people) SweepNews(ctx context.Context) error {
	rows, err := s.q.MapsWithNews(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.MapsWithNewsParams{
		Before: new(s.d.Now().Add(-unreadAfter)), AfterAt: s.sweptNews.at, AfterID: s.sweptNews.id, Most: sweepPage,
	})
	if err != nil {
		return fmt.Errorf("execution: sweep news: %w", err)
	}
	s.sweptNews = sweptTo{}
	if len(rows) == sweepPage {
		last := rows[sweepPage-1]
		s.sweptNews = sweptTo{*last.NewsAt, last.ID}
	}
	workflows := make([]string, len(rows))
	for i, row := range rows {
		workflows[i] = row.WorkflowID
	}
	s.workflows.nudgeAll(ctx, workflows)
	return nil
}
