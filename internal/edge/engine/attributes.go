package engine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/base/flow"
)

// attributes are the search attributes that are known to be registered. A start leaves out
// the others, because Temporal refuses a start that names one of them.
type attributes struct {
	found atomic.Pointer[map[flow.SearchAttribute]bool]
}

// of returns the registered ones of the listing's attributes, and whether the workflow may
// set its state.
func (a *attributes) of(listing flow.Listing) (set temporal.SearchAttributes, showsState bool) {
	found := a.found.Load()
	if found == nil || len(*found) == 0 {
		return temporal.SearchAttributes{}, false
	}
	var updates []temporal.SearchAttributeUpdate
	for name, value := range listing.Values() {
		if (*found)[name] {
			updates = append(updates, temporal.NewSearchAttributeKeyKeyword(string(name)).ValueSet(value))
		}
	}
	return temporal.NewSearchAttributes(updates...), (*found)[flow.AttributeState]
}

// has reports whether the attribute is registered, as far as the last look knows.
func (a *attributes) has(name flow.SearchAttribute) bool {
	found := a.found.Load()
	return found != nil && (*found)[name]
}

// drop forgets all attributes until the next look. It reports whether there were any.
func (a *attributes) drop() bool {
	before := a.found.Swap(&map[flow.SearchAttribute]bool{})
	return before != nil && len(*before) > 0
}

// LookEvery is how often a process looks which search attributes are registered.
func (*Engine) LookEvery() time.Duration { return 30 * time.Second }

// lookLimit bounds one look.
const lookLimit = 5 * time.Second

// Look finds out which search attributes are registered. Until the first look, and where
// Temporal does not tell, workflows are started without them.
func (e *Engine) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	now, err := types(ctx, e.client, e.namespace)
	if err != nil {
		return err
	}
	found, _, _ := sorted(now)
	e.attributes.found.Store(&found)
	return nil
}

// Warnings says in words which search attributes are missing, as far as the last look knows.
func (e *Engine) Warnings() []string {
	found := e.attributes.found.Load()
	if found == nil {
		return []string{"Temporal does not say which search attributes are registered. Operators cannot find new workflows by them."}
	}
	var missing []string
	for _, name := range flow.SearchAttributes() {
		if !(*found)[name] {
			missing = append(missing, string(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []string{
		"Search attributes are not registered as Keyword in the Temporal namespace: " + strings.Join(missing, ", ") +
			". Operators cannot find new workflows by them. Run agentruntime migrate.",
	}
}

// types returns the types of the namespace's own search attributes, by their names.
func types(ctx context.Context, c client.Client, namespace string) (map[string]enumspb.IndexedValueType, error) {
	list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("engine: list the search attributes: %w", err)
	}
	return list.GetCustomAttributes(), nil
}

// sorted divides our search attributes: those that are registered, those that are missing,
// and those that have another type than Keyword.
func sorted(types map[string]enumspb.IndexedValueType) (found map[flow.SearchAttribute]bool, missing, other []string) {
	found = map[flow.SearchAttribute]bool{}
	for _, name := range flow.SearchAttributes() {
		switch types[string(name)] {
		case enumspb.INDEXED_VALUE_TYPE_KEYWORD:
			found[name] = true
		case enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED:
			missing = append(missing, string(name))
		default:
			other = append(other, string(name))
		}
	}
	return found, missing, other
}

// Register registers the search attributes that the namespace lacks, and returns the names of
// those that it lacked. It may be repeated, also by several processes at once. It waits for Temporal until ctx ends.
// The error says what Temporal refused, and which attributes have another type: only an
// operator can remove those.
func Register(ctx context.Context, address, namespace string) (added []string, err error) {
	c, err := client.NewLazyClient(client.Options{HostPort: address, Namespace: namespace, Logger: silent{}})
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	defer c.Close()
	if err := (&Engine{client: c, namespace: namespace}).AwaitReady(ctx); err != nil {
		return nil, fmt.Errorf("engine: Temporal does not answer at %s: %w", address, err)
	}
	before, err := types(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	_, missing, other := sorted(before)
	if err := add(ctx, c, namespace, missing); err != nil {
		return nil, err
	}
	if len(other) > 0 {
		err = fmt.Errorf("engine: search attributes exist with another type than Keyword, remove them first: %s", strings.Join(other, ", "))
	}
	return missing, err
}

func add(ctx context.Context, c client.Client, namespace string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	req := &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: map[string]enumspb.IndexedValueType{}}
	for _, name := range names {
		req.SearchAttributes[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	if _, err := c.OperatorService().AddSearchAttributes(ctx, req); err != nil {
		// Another process may have registered them meanwhile.
		if now, failed := types(ctx, c, namespace); failed == nil {
			if _, missing, _ := sorted(now); len(missing) == 0 {
				return nil
			}
		}
		return fmt.Errorf("engine: register the search attributes: %w", err)
	}
	return nil
}

// silent drops what the SDK says: Register returns it.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
