package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"agentruntime/api/wire"
	"agentruntime/internal/record/idempotency"
)

// Creations remembers what calls with an Idempotency-Key have made.
type Creations interface {
	// Find returns the id of what the key has made, "" where there is none, and the
	// creation that the call would be.
	Find(ctx context.Context, call idempotency.Call) (id string, c idempotency.Creation, err error)
}

// repeatMark is in the views of all that can be created. It says that an earlier call under the
// same Idempotency-Key has created the object, or given it the secret that it has.
type repeatMark struct {
	Idempotent bool `json:"idempotent,omitempty"`
}

func (m *repeatMark) repeated() { m.Idempotent = true }

// repeatable returns the handler of a route that creates an object, or makes a secret for the
// object that its path names. Where the call has an Idempotency-Key that has done so, it answers
// 200 with the object as read shows it now, which has no secret. read answers with a V for the
// path parameter param.
func repeatable[V any, P interface {
	*V
	repeated()
}](once repeats, create, read wire.Handler, param string) wire.Handler {
	return func(ctx context.Context, c *wire.Call) (wire.Reply, error) {
		key, given, err := c.IdempotencyKey()
		if err != nil {
			return wire.Reply{}, err
		}
		if !given {
			return create(ctx, c)
		}
		path := c.Request.URL.Path
		call := idempotency.Call{Who: c.Actor, Endpoint: c.Request.Method + " " + path, Key: key, Body: c.Identity()}
		rep, id, err := once.createOnce(ctx, c, call, create)
		if err != nil || id == "" {
			return rep, err
		}
		creates := c.Param(param) == "" // otherwise the path names the object
		c.SetParam(param, id)
		if rep, err = read(ctx, c); err != nil {
			return wire.Reply{}, err
		}
		view, is := rep.Data.(V)
		if !is {
			return wire.Reply{}, fmt.Errorf("api: a repeat of %s is answered with %T", call.Endpoint, rep.Data)
		}
		P(&view).repeated()
		rep.Data = view
		if creates {
			if rep.Header == nil {
				rep.Header = http.Header{}
			}
			rep.Header.Set("Location", path+"/"+id)
		}
		return rep, nil
	}
}

// repeats finds what repeated calls have made.
type repeats struct{ creations Creations }

// createOnce creates, or returns the id of what the key has created before. A concurrent call
// under the same key may be first: then this one has changed nothing.
func (r repeats) createOnce(ctx context.Context, c *wire.Call, call idempotency.Call, create wire.Handler) (rep wire.Reply, id string, err error) {
	id, creation, err := r.creations.Find(ctx, call)
	if err != nil || id != "" {
		return wire.Reply{}, id, err
	}
	rep, err = create(idempotency.With(ctx, creation), c)
	if !idempotency.Taken(err) {
		return rep, "", err
	}
	id, _, err = r.creations.Find(ctx, call)
	if err == nil && id == "" {
		err = errors.New("api: what took an idempotency key is not there")
	}
	return wire.Reply{}, id, err
}
