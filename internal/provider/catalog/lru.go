package catalog

import (
	"container/list"
	"sync"
)

// lru keeps the entries that were used last. It is safe for concurrent use.
type lru[K comparable, V any] struct {
	mu    sync.Mutex
	most  int
	order *list.List // of *lruEntry, used last in front
	at    map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](most int) *lru[K, V] {
	return &lru[K, V]{most: most, order: list.New(), at: map[K]*list.Element{}}
}

func (c *lru[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.at[key]
	if !ok {
		var none V
		return none, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*lruEntry[K, V]).value, true //nolint:forcetypeassert // put stores nothing else
}

func (c *lru[K, V]) put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.at[key]; ok {
		e.Value = &lruEntry[K, V]{key, value}
		c.order.MoveToFront(e)
		return
	}
	c.at[key] = c.order.PushFront(&lruEntry[K, V]{key, value})
	if c.order.Len() > c.most {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.at, last.Value.(*lruEntry[K, V]).key) //nolint:forcetypeassert // put stores nothing else
	}
}
