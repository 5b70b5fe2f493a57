package answering

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/models/model"
)

const (
	// gatherFor is how long pieces of text are gathered that are written at once, plus gatherMore for
	// each answer that is streamed in the process, at most gatherMost.
	gatherFor  = 50 * time.Millisecond
	gatherMore = 2 * time.Millisecond
	gatherMost = 500 * time.Millisecond
	// writeLimit is how long one write may take.
	writeLimit = 10 * time.Second
	// toldMost is how many bytes of one answer are streamed.
	toldMost = 256 << 10
)

// The reasons of a reset besides those of a model.
const (
	resetRestart  = "restart"    // the worker died, and the model is asked again
	resetCalls    = "tool_calls" // the answer is no reply: it asks for calls
	resetReplaced = "replaced"   // the reply is another text
	resetLost     = "lost"       // a write failed, and the text comes again
	resetLanguage = "language"   // the reply was in another language, and is asked for again
)

// writersOfAnswer is how many writers an answer can have. One after the other, they have higher
// numbers: each attempt at the answer, and then its end.
const writersOfAnswer = 1000

// writer numbers an attempt at an answer, from 1.
func writer(answer int, attempt int32) int {
	return answer*writersOfAnswer + min(max(int(attempt), 1), writersOfAnswer-1)
}

// teller streams the text of one answer while the model writes it. It gathers pieces and writes them
// beside the model, which never waits for it. The last pieces are written with the end of the answer.
type teller struct {
	a      *Answerer
	w      *work
	number int

	mu sync.Mutex
	// queued is what waits to be written; more is text that comes after it.
	queued []conversation.Telling
	more   strings.Builder
	// text is all that was said since the last reset, without the spaces at both ends: a reply has
	// none. space are those at its end.
	text  strings.Builder
	space string
	// wrote: some of the text was written. full: the rest is not streamed. lost: a write has failed, so all
	// of the text is written again.
	wrote, full, lost bool
	// writing ends when what is under way is written; nil where nothing is.
	writing chan struct{}
	over    chan struct{}
}

// teller returns what streams the next answer; nil where nobody follows the message.
func (a *Answerer) teller(w *work) *teller {
	if !w.follows() {
		return nil
	}
	a.tellers.Add(1)
	return &teller{a: a, w: w, number: writer(len(w.Answers), w.in.Attempt), over: make(chan struct{})}
}

// follows reports whether the reply is followed. Only the first reply of a message is streamed.
func (w *work) follows() bool { return w.Turn.Streamed && w.Turn.Replies == 0 }

// stream is how the model tells of its answer.
func (t *teller) stream(ctx context.Context) model.Stream {
	if t == nil {
		return model.Stream{}
	}
	return model.Stream{
		Delta: func(text string) { t.say(ctx, text) },
		Reset: func(reason string) { t.reset(ctx, reason) },
	}
}

// say takes the next piece of the text.
func (t *teller) say(ctx context.Context, piece string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full {
		return
	}
	if piece = t.space + piece; t.text.Len() == 0 {
		piece = strings.TrimLeftFunc(piece, unicode.IsSpace)
	}
	said := strings.TrimRightFunc(piece, unicode.IsSpace)
	t.space = piece[len(said):]
	if t.full = t.text.Len()+len(piece) > toldMost; t.full || said == "" {
		return
	}
	t.text.WriteString(said)
	t.more.WriteString(said)
	t.begin(ctx)
}

// begin has what is gathered written. The caller has the lock.
func (t *teller) begin(ctx context.Context) {
	if t.writing == nil {
		t.writing = make(chan struct{})
		go t.write(ctx, t.writing)
	}
}

// reset makes void what was said.
func (t *teller) reset(ctx context.Context, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.void(reason); len(t.queued) > 0 {
		t.begin(ctx)
	}
}

// void drops what was said. The caller has the lock.
func (t *teller) void(reason string) {
	t.text.Reset()
	t.more.Reset()
	if t.wrote || t.lost {
		t.queued = []conversation.Telling{{Event: conversation.ToldReset, Body: reason}}
	}
	t.space, t.wrote, t.full, t.lost = "", false, false, false
}

// take returns what is to be written now. The caller has the lock.
func (t *teller) take() []conversation.Telling {
	list := t.queued
	if t.lost {
		t.more.Reset()
		t.more.WriteString(t.text.String())
		list = []conversation.Telling{{Event: conversation.ToldReset, Body: resetLost}}
	}
	if t.more.Len() > 0 {
		list, t.wrote = append(list, delta(t.more.String())), true
		t.more.Reset()
	}
	t.queued, t.lost = nil, false
	return list
}

func delta(text string) conversation.Telling {
	return conversation.Telling{Event: conversation.ToldDelta, Body: conversation.ToldText{Text: text}}
}

// write writes what was gathered, again and again until nothing more came or the answer is over.
func (t *teller) write(ctx context.Context, done chan struct{}) {
	defer close(done)
	for {
		pause := time.NewTimer(min(gatherFor+time.Duration(t.a.tellers.Load())*gatherMore, gatherMost))
		select {
		case <-pause.C:
		case <-t.over:
			pause.Stop()
			return
		}
		t.mu.Lock()
		list := t.take()
		if len(list) == 0 {
			t.writing = nil
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		limited, stop := context.WithTimeout(ctx, writeLimit)
		err := t.a.d.Conversations.Stream(limited, t.w.Work, t.number, list...)
		stop()
		if err != nil && ctx.Err() == nil {
			t.a.d.Log.WarnContext(ctx, "a part of a reply was not streamed", "execution_id", t.w.Turn.ExecutionID, "error", err)
			t.mu.Lock()
			t.lost = true // it may have been written all the same
			t.mu.Unlock()
		}
	}
}

// end waits for what is being written, and returns what is to be written with the answer. Where that is
// a reply, what was streamed since the last reset is then its text. misspoke: it is in another language,
// and void.
func (t *teller) end(next conversation.Answer, reply *conversation.Reply, misspoke bool) []conversation.Telling {
	if t == nil {
		return nil
	}
	t.a.tellers.Add(-1)
	close(t.over)
	t.mu.Lock()
	defer t.mu.Unlock()
	if writing := t.writing; writing != nil {
		t.mu.Unlock()
		<-writing
		t.mu.Lock()
	}
	switch {
	case misspoke:
		t.void(resetLanguage)
	case reply == nil && len(next.Response.Calls) > 0:
		t.void(resetCalls)
	case reply == nil || reply.Text == nil:
		return nil
	case t.full:
	case *reply.Text != t.text.String():
		t.void(resetReplaced)
		t.queued = append(t.queued, delta(*reply.Text))
	}
	return t.take()
}

// replaced is what is streamed of a reply that is no answer of a model.
func (w *work) replaced(r *conversation.Reply) {
	if w.follows() && r.Text != nil {
		r.Tellings = []conversation.Telling{{Event: conversation.ToldReset, Body: resetReplaced}, delta(*r.Text)}
	}
}

// restart makes void what a worker has streamed that died.
func (a *Answerer) restart(ctx context.Context, w *work) error {
	if !w.follows() || !w.Turn.StreamOpen {
		return nil
	}
	return a.d.Conversations.Stream(ctx, w.Work, writer(len(w.Answers), w.in.Attempt), conversation.Telling{Event: conversation.ToldReset, Body: resetRestart})
}
