package jqchild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"agentruntime/internal/maps/expression"
)

// child is one process. One caller uses it at a time.
type child struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     io.ReadCloser
	over    chan struct{} // closed when the process has ended
}

// startLimit bounds the start of a child, on a machine that is busy.
const startLimit = 20 * time.Second

// start returns a child that has bounded itself and is ready.
func start(command []string, nice bool) (*child, error) {
	c := &child{process: exec.Command(command[0], command[1:]...), over: make(chan struct{})} //nolint:gosec,noctx // this program itself; it outlives the call that starts it
	c.process.Env = []string{"GOTRACEBACK=none"}
	c.process.Dir = "/"
	c.process.SysProcAttr = apart()
	var err error
	if c.in, err = c.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("jqchild: make a pipe: %w", err)
	}
	if c.out, err = c.process.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("jqchild: make a pipe: %w", err)
	}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("jqchild: start a child: %w", err)
	}
	go func() {
		_, _ = c.process.Process.Wait() // Cmd.Wait would close the pipe under a reader
		close(c.over)
	}()
	if nice {
		yield(c.process.Process.Pid)
	}
	late := time.AfterFunc(startLimit, func() { _ = c.process.Process.Kill() })
	defer late.Stop()
	if _, err := readFrame(c.out); err != nil {
		c.end()
		return nil, fmt.Errorf("jqchild: a child did not start: %w", err)
	}
	return c, nil
}

func (c *child) lives() bool {
	select {
	case <-c.over:
		return false
	default:
		return true
	}
}

// end kills the process and forgets it.
func (c *child) end() {
	_ = c.process.Process.Kill()
	_ = c.in.Close()
	_ = c.out.Close()
	<-c.over
}

// answered is what reading an answer came to.
type answered struct {
	data []byte
	err  error
}

// ask sends a question and waits for its answer, as long as the clock allows. After an error the
// child is of no use.
func (c *child) ask(ctx context.Context, question []byte, clock clock) (response, error) {
	done := make(chan answered, 1)
	go func() {
		if err := writeFrame(c.in, question); err != nil {
			done <- answered{nil, err}
			return
		}
		data, err := readFrame(c.out)
		done <- answered{data, err}
	}()
	timer := time.NewTimer(clock.most)
	defer timer.Stop()
	for {
		select {
		case a := <-done:
			return c.answer(a)
		case <-ctx.Done():
			return response{}, fmt.Errorf("jqchild: %w", context.Cause(ctx))
		case <-timer.C:
			left, starved := clock.left()
			if starved {
				return response{}, errStarved
			}
			if left <= 0 {
				return response{}, &expression.Failure{Code: expression.CodeLimit, Detail: fmt.Sprintf("the expression takes longer than %s", clock.most.Round(time.Millisecond))}
			}
			timer.Reset(left)
		}
	}
}

func (c *child) answer(a answered) (response, error) {
	if a.err != nil {
		return response{}, &expression.Failure{
			Code:   expression.CodeLimit,
			Detail: fmt.Sprintf("the expression takes more memory than %d MiB, or recurses too deep", Memory>>20),
		}
	}
	var r response
	if err := json.Unmarshal(a.data, &r); err != nil {
		return response{}, fmt.Errorf("jqchild: read an answer: %w", err)
	}
	return r, nil
}

// clock says how much longer a child may work on a question.
type clock struct {
	child *child
	most  time.Duration
	began time.Time
	used  time.Duration // of the processor, before the question
}

func (c *child) clock(most time.Duration) clock {
	used, _ := used(c.process.Process.Pid)
	return clock{c, most, time.Now(), used}
}

// spent returns how long the child has worked on the question.
func (k clock) spent() time.Duration {
	now, known := used(k.child.process.Process.Pid)
	if !known {
		return time.Since(k.began)
	}
	return now - k.used
}

// errStarved is why an expression was not evaluated: the processor had no time for the child.
var errStarved = errors.New("jqchild: the processor had too little time for the expression")

// left returns how much time the question has. Where the system tells, only the time counts in
// which the processor worked on it: a busy machine does not make an expression fail. starved: the
// processor has worked on it for less, but it has lasted for too long.
func (k clock) left() (left time.Duration, starved bool) {
	now, known := used(k.child.process.Process.Pid)
	if !known {
		return k.most - time.Since(k.began), false
	}
	left = k.most - (now - k.used)
	lasts := max(patience*k.most, leastPatience) - time.Since(k.began)
	return min(lasts, left), lasts <= 0 && left > 0
}
