package jqchild

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"agentruntime/internal/maps/expression"
)

// maxStack bounds the stack of a child in bytes: a recursion without an end dies early.
const maxStack = 64 << 20

// Serve is the whole program of a child: it evaluates the expressions that come on in, one after
// the other, and writes their results to out. It returns when in ends. It bounds the memory of
// its process first, so only a process that does nothing but this may call it.
func Serve(in io.Reader, out io.Writer) error {
	runtime.GOMAXPROCS(1)
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(Memory / 2) // collect early, so that garbage does not count
	if err := confine(); err != nil {
		return err
	}
	if err := writeFrame(out, nil); err != nil { // ready
		return err
	}
	questions := make(chan []byte)
	go func() {
		for {
			question, err := readFrame(in)
			if err != nil {
				os.Exit(0) // the parent is gone: an expression may be at work and never end
			}
			questions <- question
		}
	}()
	for question := range questions {
		answer, err := json.Marshal(evaluate(question))
		if err != nil {
			return err
		}
		if err := writeFrame(out, answer); err != nil {
			return err
		}
	}
	return nil
}

func evaluate(question []byte) response {
	var q request
	if err := json.Unmarshal(question, &q); err != nil {
		return response{Fault: "read an expression: " + err.Error()}
	}
	parsed, syntax := expression.Parse(q.Source)
	if syntax != nil {
		return response{Failure: &expression.Failure{Code: expression.CodeFailed, Detail: syntax.Message}}
	}
	results, err := parsed.RunUnbounded(context.Background(), q.Roots)
	if failure, ok := errors.AsType[*expression.Failure](err); ok {
		return response{Failure: failure}
	}
	if err != nil {
		return response{Fault: err.Error()}
	}
	size := 0
	for _, r := range results {
		size += len(r)
	}
	if size > 2*expression.MaxResult {
		return response{Failure: &expression.Failure{Code: expression.CodeLimit, Detail: "the result is too large"}}
	}
	return response{Results: results}
}
