package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Kinds of entries, which are also the prefixes of their ids.
const (
	kindOrder    = "ord"
	kindCustomer = "cus"
	kindRefund   = "ref"
	kindTicket   = "tic"
	kindMessage  = "msg"
)

// change is one line of the state file: an entry as it is from now on.
type change struct {
	Order           *Order         `json:"order,omitempty"`
	Customer        *Customer      `json:"customer,omitempty"`
	Refund          *Refund        `json:"refund,omitempty"`
	Ticket          *Ticket        `json:"ticket,omitempty"`
	Message         *Message       `json:"message,omitempty"`
	DeletedCustomer string         `json:"deleted_customer,omitempty"`
	Reply           *reply         `json:"reply,omitempty"`
	Last            map[string]int `json:"last,omitempty"` // last number given, by kind
}

// reply is what was answered to a request with an Idempotency-Key.
type reply struct {
	Operation string          `json:"operation"`
	Key       string          `json:"key"`
	Hash      string          `json:"hash"`
	Body      json.RawMessage `json:"body"`
}

// table contains the entries of one kind in the order of their creation. A deleted
// one leaves a gap, so that a listing can go on behind it.
type table[T any] struct {
	rows  []*T
	index map[string]int
}

func newTable[T any]() *table[T] { return &table[T]{index: map[string]int{}} }

func (t *table[T]) get(id string) *T {
	if i, known := t.index[id]; known {
		return t.rows[i]
	}
	return nil
}

// put stores a new version of an entry. An entry is never changed in place:
// answers that are being written still point to the old one.
func (t *table[T]) put(id string, row *T) {
	if i, known := t.index[id]; known {
		t.rows[i] = row
		return
	}
	t.index[id] = len(t.rows)
	t.rows = append(t.rows, row)
}

func (t *table[T]) remove(id string) {
	if i, known := t.index[id]; known {
		t.rows[i] = nil
	}
}

// store is the state of the shop: tables in memory and a file with every
// change, appended before it counts.
type store struct {
	orders    *table[Order]
	customers *table[Customer]
	refunds   *table[Refund]
	tickets   *table[Ticket]
	messages  *table[Message]
	replies   map[string]*reply // by operation and key
	last      map[string]int
	file      *os.File // nil: memory only
}

// stateFile is the name of the state file in Config.Dir.
const stateFile = "sandbox.ndjson"

// openStore reads the state in dir, or begins with the seed data.
func openStore(dir string, now time.Time) (*store, error) {
	st := &store{
		orders: newTable[Order](), customers: newTable[Customer](), refunds: newTable[Refund](),
		tickets: newTable[Ticket](), messages: newTable[Message](), replies: map[string]*reply{}, last: map[string]int{},
	}
	if dir == "" {
		return st, st.commit(seed(now)...)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: make the state directory: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	known, err := st.load(path)
	if err != nil {
		return nil, err
	}
	if !known {
		for _, c := range seed(now) {
			st.apply(c)
		}
	}
	// Each start rewrites the file: without what was overwritten, and without the
	// half line that a crash leaves.
	if err := st.rewrite(path); err != nil {
		return nil, err
	}
	if st.file, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("sandbox: open the state file: %w", err)
	}
	return st, nil
}

// load replays the state file and reports whether there is one.
func (st *store) load(path string) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("sandbox: open the state file: %w", err)
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return true, nil // what stands after the last line break was never answered
		}
		if err != nil {
			return false, fmt.Errorf("sandbox: read the state file: %w", err)
		}
		var c change
		if err := json.Unmarshal(line, &c); err != nil {
			return false, fmt.Errorf("sandbox: line %d of %s is damaged, remove the file to start again: %w", n, path, err)
		}
		st.apply(c)
	}
}

// rewrite writes the whole state to a new file and puts it in place.
func (st *store) rewrite(path string) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, c := range st.snapshot() {
		if err := enc.Encode(c); err != nil {
			return fmt.Errorf("sandbox: encode the state: %w", err)
		}
	}
	if err := os.WriteFile(path+".new", out.Bytes(), 0o600); err != nil {
		return fmt.Errorf("sandbox: write the state file: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("sandbox: put the state file in place: %w", err)
	}
	return nil
}

func (st *store) snapshot() []change {
	list := []change{{Last: st.last}}
	for _, row := range st.customers.rows {
		if row != nil {
			list = append(list, change{Customer: row})
		}
	}
	for _, row := range st.orders.rows {
		list = append(list, change{Order: row})
	}
	for _, row := range st.refunds.rows {
		list = append(list, change{Refund: row})
	}
	for _, row := range st.tickets.rows {
		list = append(list, change{Ticket: row})
	}
	for _, row := range st.messages.rows {
		list = append(list, change{Message: row})
	}
	for _, row := range st.replies {
		list = append(list, change{Reply: row})
	}
	return list
}

// commit appends the changes to the file in one write, then makes them count.
// The write is not synced: it survives a killed process.
func (st *store) commit(changes ...change) error {
	if st.file != nil {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		for _, c := range changes {
			if err := enc.Encode(c); err != nil {
				return fmt.Errorf("sandbox: encode a change: %w", err)
			}
		}
		if _, err := st.file.Write(out.Bytes()); err != nil {
			return fmt.Errorf("sandbox: append to the state file: %w", err)
		}
	}
	for _, c := range changes {
		st.apply(c)
	}
	return nil
}

func (st *store) apply(c change) {
	switch {
	case c.Order != nil:
		st.seen(c.Order.ID)
		st.orders.put(c.Order.ID, c.Order)
	case c.Customer != nil:
		st.seen(c.Customer.ID)
		st.customers.put(c.Customer.ID, c.Customer)
	case c.Refund != nil:
		st.seen(c.Refund.ID)
		st.refunds.put(c.Refund.ID, c.Refund)
	case c.Ticket != nil:
		st.seen(c.Ticket.ID)
		st.tickets.put(c.Ticket.ID, c.Ticket)
	case c.Message != nil:
		st.seen(c.Message.ID)
		st.messages.put(c.Message.ID, c.Message)
	case c.DeletedCustomer != "":
		st.customers.remove(c.DeletedCustomer)
	case c.Reply != nil:
		st.replies[c.Reply.Operation+" "+c.Reply.Key] = c.Reply
	}
	for kind, n := range c.Last {
		st.last[kind] = max(st.last[kind], n)
	}
}

// seen remembers the number of an id, so that it is never given again.
func (st *store) seen(id string) {
	kind, digits, _ := strings.Cut(id, "_")
	if n, err := strconv.Atoi(digits); err == nil {
		st.last[kind] = max(st.last[kind], n)
	}
}

// nextID returns a new id of the kind: "ord_1001" and up.
func (st *store) nextID(kind string) string {
	return kind + "_" + strconv.Itoa(max(st.last[kind], 1000)+1)
}

func (st *store) close() error {
	if st.file == nil {
		return nil
	}
	if err := st.file.Close(); err != nil {
		return fmt.Errorf("sandbox: close the state file: %w", err)
	}
	return nil
}

// once runs an operation that takes an Idempotency-Key: a repeat with the same
// key and body gets the stored answer, another body under the key is refused.
func once[B, T any](st *store, operation string, c call[B], do func() (*T, []change, error)) (answer, error) {
	if len(c.key) > 255 {
		return answer{}, invalid("Idempotency-Key", "Idempotency-Key must have at most 255 characters.")
	}
	if was := st.replies[operation+" "+c.key]; was != nil && c.key != "" {
		if was.Hash != c.hash {
			return answer{}, refuse(http.StatusUnprocessableEntity, "idempotency_key_reused", "This Idempotency-Key was used with another body.")
		}
		return answer{status: http.StatusCreated, replay: was.Body}, nil
	}
	row, changes, err := do()
	if err != nil {
		return answer{}, err
	}
	if c.key != "" {
		body, err := json.Marshal(row)
		if err != nil {
			return answer{}, fmt.Errorf("sandbox: encode a reply: %w", err)
		}
		changes = append(changes, change{Reply: &reply{Operation: operation, Key: c.key, Hash: c.hash, Body: body}})
	}
	return created(row), st.commit(changes...)
}
