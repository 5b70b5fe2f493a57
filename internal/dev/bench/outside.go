package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// Load from outside: the callers and the provider are processes of their own, as they are in
// the world. In one process with the service they would share its scheduler and its garbage
// collector, and answer the sooner the more of them there are.

// outsideName names the rows of runs that are measured so.
const outsideName = "run, from outside"

// outsideProvider is the slug under which the provider of another process is imported.
const outsideProvider = "outside"

// Outside is a provider in a process of its own.
type Outside struct {
	// Key is its API key, Document its OpenAPI document, BaseURL its address.
	Key, BaseURL string
	Document     json.RawMessage
	Stop         func()
}

// ClientConfig is what a client process is told.
type ClientConfig struct {
	APIURL   string        `json:"api_url"`
	Key      string        `json:"key"`
	Provider string        `json:"provider"`
	Clients  int           `json:"clients"`
	Round    time.Duration `json:"round"`
}

// clientReport is what a client process answers.
type clientReport struct {
	Sample Sample `json:"sample"`
	Error  string `json:"error,omitempty"`
}

// Client is the client process: it reads a ClientConfig from in, makes runs for one round, and
// writes what it measured to out.
func Client(ctx context.Context, in io.Reader, out io.Writer) error {
	var cfg ClientConfig
	if err := json.NewDecoder(in).Decode(&cfg); err != nil {
		return fmt.Errorf("bench: client: %w", err)
	}
	b := &benchmark{
		service: Service{APIURL: cfg.APIURL, Provider: cfg.Provider}, runtime: credential{key: cfg.Key}, http: newHTTP(),
	}
	report := clientReport{Sample: Load(ctx, cfg.Clients, cfg.Round, func() Cost { return Cost{} }, func(ctx context.Context, _ int64) error {
		_, err := b.call(ctx, http.MethodPost, "/v1/runtime/actions/run", b.runtime, b.order(uuid.NewString()), http.StatusOK)
		return err
	})}
	if err := report.Sample.FirstError; err != nil {
		report.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(report)
}

// outside measures runs of a client process against a provider of its own process. The CPU time
// of the client is not in it.
func (b *benchmark) outside(ctx context.Context, dir string) ([]Row, error) {
	provider, err := b.deps.StartProvider(ctx, filepath.Join(dir, "outside"))
	if err != nil {
		return nil, err
	}
	defer provider.Stop()
	owner, _, err := b.logIn(ctx, b.service.Email, b.service.Password)
	if err != nil {
		return nil, err
	}
	if err := b.connect(ctx, owner, provider); err != nil {
		return nil, err
	}
	rows := make([]Row, len(b.Clients))
	for i, clients := range b.Clients {
		samples := make([]Sample, rounds)
		for round := range samples {
			if samples[round], err = b.outsideRound(ctx, clients); err != nil {
				return nil, err
			}
		}
		rows[i] = Row{Name: outsideName, Sample: Median(samples)}
		if rows[i].Errors > 0 {
			return nil, fmt.Errorf("bench: %s: %d errors, the first: %w", outsideName, rows[i].Errors, rows[i].FirstError)
		}
	}
	return rows, nil
}

// connect imports the provider of another process and its key.
func (b *benchmark) connect(ctx context.Context, owner credential, provider Outside) error {
	err := b.post(ctx, owner, "/v1/providers", map[string]any{
		"slug": outsideProvider, "name": "Outside", "domain": "commerce", "base_url": provider.BaseURL, "openapi": provider.Document,
	}, nil)
	if err != nil {
		return err
	}
	return b.post(ctx, owner, "/v1/credentials", map[string]any{
		"provider": outsideProvider, "type": "api_key", "label": "bench", "data": map[string]string{"key": provider.Key},
	}, nil)
}

func (b *benchmark) outsideRound(ctx context.Context, clients int) (Sample, error) {
	cfg := ClientConfig{APIURL: b.service.APIURL, Key: b.runtime.key, Provider: outsideProvider, Clients: clients, Round: b.Round}
	in, err := json.Marshal(cfg)
	if err != nil {
		return Sample{}, fmt.Errorf("bench: %w", err)
	}
	before := b.cost()
	var out bytes.Buffer
	if err := b.deps.RunClient(ctx, bytes.NewReader(in), &out); err != nil {
		return Sample{}, err
	}
	after := b.cost()
	var report clientReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return Sample{}, fmt.Errorf("bench: what the client says: %w", err)
	}
	s := report.Sample
	if report.Error != "" {
		s.FirstError = errors.New(report.Error)
	}
	n := float64(max(s.Requests, 1))
	s.CPU, s.Allocs = time.Duration(float64(after.CPU-before.CPU)/n), 0
	s.SQL, s.Writes = float64(after.SQL-before.SQL)/n, float64(after.Writes-before.Writes)/n
	return s, nil
}
