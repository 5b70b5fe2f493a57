// Command policybench has three engines decide the same 100 calls under the same
// policies and compares what a decision costs: ours (internal/kernel/governance), OPA and
// Cedar, each as a Go library within this process. They must agree on each
// decision. It exits with 1 where they do not, or where ours is not the fastest at what all
// three are asked for.
//
// Cerbos is not among them: its module (v0.57.0) asks for Go 1.27.3, this one is built
// with 1.26.
//
// Ours reads the arguments of a call as the bytes that were sent. The others are handed what
// they read from them, made before the clock runs. All three are asked for the decision
// alone; ours and Cedar name the policies that match too. Ours is measured once more with the
// reason and the explanation of each decision, which the others do not make. OPA has one
// rule per policy, the form that its rule index knows; Cedar has one policy per policy, with
// the verb and the provider in the scope.
package main

import (
	"context"
	"fmt"
	"os"
)

// engine decides about call i of the cases.
type engine interface {
	name() string
	decide(i int) (string, error)
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	slow := 0
	seen := map[string]int{}
	fmt.Printf("%-10s %-20s %18s %14s %16s\n", "policies", "engine", "CPU ns/decision", "bytes/decision", "allocs/decision")
	for _, n := range []int{10, 100, 1000} {
		s := generate(n)
		engines, err := build(ctx, s)
		if err != nil {
			return err
		}
		if err := agree(s, engines, seen); err != nil {
			return err
		}
		costs, err := compare(engines, len(s.calls))
		if err != nil {
			return err
		}
		for i, e := range engines {
			fmt.Printf("%-10d %-20s %18.0f %14.0f %16.1f\n", n, e.name(), costs[i].nanoseconds, costs[i].bytes, costs[i].allocs)
			if i >= own && costs[i].nanoseconds <= costs[0].nanoseconds {
				slow++
			}
		}
	}
	fmt.Printf("all engines agree: %v\n", seen)
	if len(seen) < 3 {
		return fmt.Errorf("the cases decide too little: %v", seen)
	}
	if slow > 0 {
		return fmt.Errorf("ours is not the fastest in %d comparisons", slow)
	}
	return nil
}

// own is how many of the engines are ours.
const own = 2

// build returns the engines, ours first.
func build(ctx context.Context, s set) ([]engine, error) {
	o, err := newOPA(ctx, s)
	if err != nil {
		return nil, err
	}
	c, err := newCedar(s)
	if err != nil {
		return nil, err
	}
	us := newOurs(s)
	return []engine{us, withReasons{us}, o, c}, nil
}

// agree compares the engines' decisions, and counts them in seen.
func agree(s set, engines []engine, seen map[string]int) error {
	for i, c := range s.calls {
		want := ""
		for _, e := range engines {
			got, err := e.decide(i)
			if err != nil {
				return fmt.Errorf("%s on %s %s: %w", e.name(), c.verb(), c.args(), err)
			}
			if want == "" {
				want = got
				seen[got]++
			}
			if got != want {
				return fmt.Errorf("%s %s risk %s: %s says %s, %s says %s", c.verb(), c.args(), c.risk, engines[0].name(), want, e.name(), got)
			}
		}
	}
	return nil
}
