package api

import (
	"context"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/redact"
)

// AgentSessions is what the endpoints need of the sessions of agents.
type AgentSessions interface {
	Sessions(ctx context.Context, tenant uuid.UUID, f conversation.SessionFilter) ([]conversation.Session, bool, error)
	Session(ctx context.Context, tenant uuid.UUID, ref conversation.SessionRef) (conversation.Session, error)
	DeleteSession(ctx context.Context, who actor.Actor, ref conversation.SessionRef, expect fault.Expect[conversation.Session]) error
	// Transcript returns what was said in a session, the newest first.
	Transcript(ctx context.Context, tenant uuid.UUID, of conversation.Session, before int64, limit int) ([]conversation.Said, bool, error)
	TakeOver(ctx context.Context, who actor.Actor, ref conversation.SessionRef) (conversation.Session, error)
	ReplyAs(ctx context.Context, who actor.Actor, ref conversation.SessionRef, text string) (conversation.Session, error)
	HandBack(ctx context.Context, who actor.Actor, ref conversation.SessionRef) (conversation.Session, error)
	Rate(ctx context.Context, who actor.Actor, t conversation.Turn, f conversation.Feedback) (conversation.Feedback, error)
	Ratings(ctx context.Context, t conversation.Turn) ([]conversation.Feedback, error)
	// SessionsOf returns the sessions of a customer with all agents.
	SessionsOf(ctx context.Context, tenant, customer uuid.UUID, until time.Time, after uuid.UUID, limit int) ([]conversation.Session, bool, error)
}

// agentSession is a session of an agent.
type agentSession struct {
	SessionID     *string               `json:"session_id"`
	AgentID       uuid.UUID             `json:"agent_id"`
	CustomerID    *uuid.UUID            `json:"customer_id"`
	Status        conversation.Standing `json:"status"`
	HeldBy        *string               `json:"held_by"`
	HeldAt        *time.Time            `json:"held_at"`
	EscalatedAt   *time.Time            `json:"escalated_at"`
	Turns         int32                 `json:"turns"`
	Version       int32                 `json:"version"`
	Tainted       bool                  `json:"tainted"`
	TaintSources  []string              `json:"taint_sources"`
	CreatedAt     time.Time             `json:"created_at"`
	LastMessageAt time.Time             `json:"last_message_at"`

	repeatMark
}

func viewAgentSession(s conversation.Session) agentSession {
	return agentSession{
		SessionID: textOrNull(s.SessionID), AgentID: s.AgentID, CustomerID: s.Customer, Status: s.Standing(), HeldBy: byUser(s.HeldBy), HeldAt: utc(s.HeldAt),
		EscalatedAt: s.EscalatedAt, Turns: s.Turns, Version: s.Version, Tainted: s.Tainted, TaintSources: wire.Array(s.TaintSources), CreatedAt: s.CreatedAt, LastMessageAt: s.UpdatedAt,
	}
}

func sessionTag(s conversation.Session) string { return wire.ViewTag(viewAgentSession(s)) }

// sessionRef reads the session that the path names.
func sessionRef(c *wire.Call) conversation.SessionRef {
	return conversation.SessionRef{AgentID: c.ID(), SessionID: c.Param("sid")}
}

// sessionPlaceOf reads a cursor of the list: the time in microseconds, not before 1970, and the id.
func sessionPlaceOf(text string) (p conversation.SessionPlace, ok bool) {
	if len(text) != 8+len(p.ID) {
		return p, false
	}
	at := int64(binary.BigEndian.Uint64([]byte(text)))
	p.At = time.UnixMicro(at).UTC()
	copy(p.ID[:], text[8:])
	return p, at >= 0
}

func placeOfSession(s conversation.Session) string {
	at := binary.BigEndian.AppendUint64(nil, uint64(s.UpdatedAt.UnixMicro()))
	return string(append(at, s.ID[:]...))
}

func (h *agentHandlers) listAgentSessions(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f := conversation.SessionFilter{AgentID: c.ID()}
	var err error
	if f.Limit, err = c.Limit(); err != nil {
		return wire.Reply{}, err
	}
	before, given, err := wire.QueryCursor(c, sessionPlaceOf)
	if err != nil {
		return wire.Reply{}, err
	}
	if given {
		f.Before = &before
	}
	if f.Escalated, err = c.QueryBool("escalated"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	f.Customer = v.QueryID(c, "customer_id")
	f.Standing = wire.QueryOneOf(&v, c, "status", conversation.SessionOpen, conversation.SessionBusy, conversation.SessionHeld)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	page, more, err := h.agentSessions.Sessions(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.List(f.Limit, page, more, viewAgentSession, placeOfSession), nil
}

func answerSession(found conversation.Session) wire.Reply {
	return wire.Reply{Data: viewAgentSession(found), Header: http.Header{"Etag": {sessionTag(found)}}}
}

func (h *agentHandlers) getAgentSession(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	found, err := h.agentSessions.Session(ctx, c.Actor.TenantID, sessionRef(c))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerSession(found), nil
}

func (h *agentHandlers) deleteAgentSession(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.agentSessions.DeleteSession(ctx, c.Actor, sessionRef(c), wire.Expect(c, sessionTag)))
}

// sessionMessage is one thing that was said in a session. What was said is masked.
type sessionMessage struct {
	ID          uuid.UUID         `json:"id"`
	From        conversation.Kind `json:"from"`
	By          *string           `json:"by"`
	Text        string            `json:"text"`
	ExecutionID *string           `json:"execution_id"`
	Answered    bool              `json:"answered"`
	ToolCalls   []started         `json:"tool_calls"`
	Feedback    []feedbackView    `json:"feedback"`
	CreatedAt   time.Time         `json:"created_at"`
}

// feedbackView is what one key or user thinks of a reply. The comment is masked.
type feedbackView struct {
	By        string              `json:"by"`
	Rating    conversation.Rating `json:"rating"`
	Comment   *string             `json:"comment"`
	CreatedAt time.Time           `json:"created_at"`
	UpdatedAt time.Time           `json:"updated_at"`
}

func viewFeedback(list ...conversation.Feedback) []feedbackView {
	views := make([]feedbackView, 0, len(list))
	for _, f := range list {
		views = append(views, feedbackView{By: f.By, Rating: f.Rating, Comment: textOrNull(redact.Text(f.Comment)), CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt})
	}
	return views
}

func viewSaid(one conversation.Said) sessionMessage {
	v := sessionMessage{
		ID: one.ID, From: one.From, By: byUser(one.Author), Text: redact.Text(one.Text), ExecutionID: textOrNull(one.ExecutionID), Answered: !one.Unanswered,
		ToolCalls: []started{}, Feedback: viewFeedback(one.Feedback...), CreatedAt: one.At,
	}
	for _, run := range one.Runs {
		v.ToolCalls = append(v.ToolCalls, viewStarted(run))
	}
	return v
}

func placeOfSaid(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0
}

func (h *agentHandlers) listSessionMessages(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	limit, err := c.Limit()
	if err != nil {
		return wire.Reply{}, err
	}
	before, _, err := wire.QueryCursor(c, placeOfSaid)
	if err != nil {
		return wire.Reply{}, err
	}
	found, err := h.agentSessions.Session(ctx, c.Actor.TenantID, sessionRef(c))
	if err != nil {
		return wire.Reply{}, err
	}
	page, more, err := h.agentSessions.Transcript(ctx, c.Actor.TenantID, found, before, limit)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.List(limit, page, more, viewSaid, func(one conversation.Said) string { return strconv.FormatInt(one.Place, 10) }), nil
}

func (h *agentHandlers) takeOverSession(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	found, err := h.agentSessions.TakeOver(ctx, c.Actor, sessionRef(c))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerSession(found), nil
}

func (h *agentHandlers) handBackSession(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	found, err := h.agentSessions.HandBack(ctx, c.Actor, sessionRef(c))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerSession(found), nil
}

// maxPersonMessage is how many characters a person's message has at most.
const maxPersonMessage = 8192

// replyInSession sends the customer what a person says.
func (h *agentHandlers) replyInSession(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b struct {
		Message *string `json:"message"`
	}
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	text := v.Text("/message", b.Message, maxPersonMessage)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	found, err := h.agentSessions.ReplyAs(ctx, c.Actor, sessionRef(c), text)
	if err != nil {
		return wire.Reply{}, err
	}
	return answerSession(found), nil
}

// rateReply stores what the caller thinks of the reply to a message.
func (h *agentHandlers) rateReply(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b struct {
		Rating  *string `json:"rating"`
		Comment *string `json:"comment"`
	}
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	f := conversation.Feedback{Comment: v.OptionalText("/comment", b.Comment, 1, conversation.MaxComment)}
	switch rating := v.Required("/rating", b.Rating); {
	case b.Rating == nil:
	case strings.EqualFold(rating, string(conversation.RatedUp)):
		f.Rating = conversation.RatedUp
	case strings.EqualFold(rating, string(conversation.RatedDown)):
		f.Rating = conversation.RatedDown
	default:
		v.Add("/rating", "enum", near.Enum("rating", conversation.Rating(rating), conversation.RatedUp, conversation.RatedDown))
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	t, err := h.namedTurn(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	if f, err = h.agentSessions.Rate(ctx, c.Actor, t, f); err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(viewFeedback(f)[0]), nil
}
