package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A package costs its share of time, whatever it contains, and more with its size. Both
// are a fit of the 1,900 packages of the development binary, in bytes of source.
const basicCost = 20_000

// surely is the share of a build after which a forecast is worth showing.
const surely = 0.02

// plan is what is to be compiled, by import path, with what each package costs.
type plan map[string]int64

// with adds packages that are not in the plan; what they cost is not known.
func (p plan) with(paths []string) plan {
	all := maps.Clone(p)
	for _, path := range paths {
		if _, known := all[path]; !known {
			all[path] = basicCost
		}
	}
	return all
}

// share returns how much of the cost the packages in done have, 0 to 1, and the number
// of packages in the plan.
func (p plan) share(done []string) (share float64, packages int) {
	var all, spent int64
	for _, cost := range p {
		all += cost
	}
	for _, path := range done {
		spent += p[path]
	}
	return float64(spent) / float64(max(1, all)), len(p)
}

// timeLeft forecasts from the time that a share of the cost took; ok is false while that
// would be a guess.
func timeLeft(elapsed time.Duration, share float64) (left time.Duration, ok bool) {
	if share < surely {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (1 - share) / share), true
}

// inWords rounds to what a person wants to know.
func inWords(d time.Duration) string {
	const step = 10 * time.Second
	if d < 95*time.Second {
		return fmt.Sprintf("%d s", int(max(step, d.Round(step)).Seconds()))
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
}

// listing is what `go list` says of a package: its path, whether it is of the standard
// library, whether it is a command, whether it is to be compiled, and where its files are.
const listing = `{{.ImportPath}}	{{.Standard}}	{{eq .Name "main"}}	{{.Stale}}	{{.Dir}}	{{join .GoFiles "/"}}/{{join .CgoFiles "/"}}`

type listed struct {
	path                     string
	standard, command, stale bool
	dir                      string
	files                    []string
}

func (o options) list(ctx context.Context) ([]listed, error) {
	args := append([]string{"list", "-deps", "-f", listing}, o.build...)
	if o.tests {
		args = append(args, "-test")
	}
	args = append(append(args, "--"), o.packages...)
	cmd := exec.CommandContext(ctx, o.command, args...) //nolint:gosec // the Makefile says what
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var list []listed
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 {
			return nil, fmt.Errorf("go list: a line that is not known: %s", line)
		}
		list = append(list, listed{
			path: f[0], standard: f[1] == "true", command: f[2] == "true", stale: f[3] == "true",
			dir: f[4], files: strings.FieldsFunc(f[5], func(r rune) bool { return r == '/' }),
		})
	}
	return list, nil
}

// plan returns what is to be compiled now.
func (o options) plan(ctx context.Context) (plan, error) {
	list, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	p := plan{}
	for _, l := range list {
		if l.stale && (!o.tests || !l.ofTest()) {
			p[l.path] = basicCost + l.size()
		}
	}
	return p, nil
}

// ofTest reports whether only a test binary has the package in this form.
func (l listed) ofTest() bool { return l.command || strings.Contains(l.path, " [") }

// size is what its source files have, in bytes.
func (l listed) size() int64 {
	var sum int64
	for _, name := range l.files {
		if info, err := os.Stat(filepath.Join(l.dir, name)); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// arguments are those of `go build`, without -v. They are empty where nothing is asked for.
func (o options) arguments(ctx context.Context) ([]string, error) {
	args := o.build
	if o.output != "" {
		args = append(args, "-o", o.output)
	}
	if !o.tests {
		return append(args, o.packages...), nil
	}
	list, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	var packages []string
	for _, l := range list {
		// What a package of the standard library needs is compiled with it. A package that only
		// has tests has nothing to compile without them.
		if !l.ofTest() && !l.standard && len(l.files) > 0 {
			packages = append(packages, l.path)
		}
	}
	if len(packages) == 0 {
		return nil, nil
	}
	return append(args, packages...), nil
}
