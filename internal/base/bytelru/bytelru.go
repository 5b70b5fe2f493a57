// Package bytelru keeps what was used last, bounded by the bytes that it takes. The caches
// of compiled verbs and of compiled policies use it: what tenants store decides how large
// one entry is, so a number of entries bounds nothing.
package bytelru

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// entrySize is what an entry takes besides its value, in bytes: the map, the list, the key.
const entrySize = 256

// maxEntries bounds the entries of one cache; the bytes are reached long before.
const maxEntries = 1 << 20

// Cache is safe for concurrent use.
type Cache[K comparable, V any] struct {
	mu    sync.Mutex
	kept  *simplelru.LRU[K, entry[V]]
	most  int
	bytes int
}

type entry[V any] struct {
	value V
	size  int
}

// New returns an empty cache of at most most bytes.
func New[K comparable, V any](most int) (*Cache[K, V], error) {
	if most < 1 {
		return nil, errors.New("bytelru: a positive number of bytes is required")
	}
	c := &Cache[K, V]{most: most}
	var err error
	c.kept, err = simplelru.NewLRU(maxEntries, func(_ K, gone entry[V]) { c.bytes -= gone.size })
	if err != nil {
		return nil, fmt.Errorf("bytelru: %w", err)
	}
	return c, nil
}

// Get returns the value of a key, which then counts as used last.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.kept.Get(key)
	return e.value, ok
}

// Add keeps a value of size bytes in the place of the key's last one, and lets go of what was
// not used for longest. The newest value stays, whatever its size. With replaces, a value
// stays where replaces returns false for it.
func (c *Cache[K, V]) Add(key K, value V, size int, replaces func(old V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.kept.Peek(key); ok {
		if replaces != nil && !replaces(old.value) {
			return
		}
		c.kept.Remove(key)
	}
	size += entrySize
	c.kept.Add(key, entry[V]{value, size})
	c.bytes += size
	for c.bytes > c.most && c.kept.Len() > 1 {
		c.kept.RemoveOldest()
	}
}

// Remove lets go of a key.
func (c *Cache[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key)
}

// Bytes returns what the cache takes.
func (c *Cache[K, V]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
