package schemagraph

import "slices"

// markLive marks every node from which something secret can be reached.
func markLive(list []*Node) {
	into := make(map[*Node][]*Node, len(list))
	var queue []*Node
	for _, n := range list {
		n.each(func(next *Node) { into[next] = append(into[next], n) })
		if n.Secret {
			n.Live = true
			queue = append(queue, n)
		}
	}
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, before := range into[n] {
			if !before.Live {
				before.Live = true
				queue = append(queue, before)
			}
		}
	}
}

// each calls f for every node that n leads to.
func (n *Node) each(f func(*Node)) {
	some := func(list ...*Node) {
		for _, one := range list {
			if one != nil {
				f(one)
			}
		}
	}
	for _, p := range n.Properties {
		f(p)
	}
	for _, p := range n.Patterns {
		some(p.Node)
	}
	some(n.Prefix...)
	some(n.Items...)
	some(n.InPlace...)
	some(n.Contains, n.Denied, n.Names)
}

func (n *Node) indexSecrets() {
	for name, p := range n.Properties {
		if !p.Live {
			continue
		}
		if n.secrets == nil {
			n.secrets = map[string][]*Node{}
		}
		folded := Fold(name)
		n.secrets[folded] = append(n.secrets[folded], p)
	}
}

// NamesSecret reports whether propertyNames marks the names of the members.
func (n *Node) NamesSecret() bool { return n.namesSecret }

func (n *Node) hidesNames() bool {
	if n.Names == nil || !n.Names.Live {
		return false
	}
	var names Set
	names.Add(n.Names)
	names.CloseLive()
	return names.Over || slices.ContainsFunc(names.Nodes(), func(one *Node) bool { return one.Secret })
}

// Width is how many schemas one place of a value may have at once. A place that has more
// counts as opaque.
const Width = 64

// Set is a set of at most Width nodes. The zero value is empty.
type Set struct {
	list [Width]*Node
	n    int
	// Over: the set would have more than Width nodes.
	Over bool
}

// Nodes returns the nodes, in the order in which they were added.
func (s *Set) Nodes() []*Node { return s.list[:s.n] }

// Reset empties the set.
func (s *Set) Reset() { s.n, s.Over = 0, false }

// Add adds a node that is not nil, once.
func (s *Set) Add(n *Node) {
	if n == nil || s.Over || slices.Contains(s.list[:s.n], n) {
		return
	}
	if s.n == Width {
		s.Over = true
		return
	}
	s.list[s.n] = n
	s.n++
}

// Close adds the schemas for the same value as those in the set.
func (s *Set) Close() {
	for i := 0; i < s.n && !s.Over; i++ {
		for _, next := range s.list[i].InPlace {
			if s.Add(next); s.Over {
				return
			}
		}
	}
}

// Enter is Close that also adds what the elements of arrays are, at any depth.
func (s *Set) Enter() {
	for i := 0; i < s.n && !s.Over; i++ {
		for _, list := range [][]*Node{s.list[i].InPlace, s.list[i].Prefix, s.list[i].Items} {
			for _, next := range list {
				if s.Add(next); s.Over {
					return
				}
			}
		}
		s.Add(s.list[i].Contains)
	}
}

// CloseLive is Close for what is secret: it adds live nodes only, and those of not too.
func (s *Set) CloseLive() {
	for i := 0; i < s.n && !s.Over; i++ {
		for _, next := range s.list[i].InPlace {
			if s.AddLive(next); s.Over {
				return
			}
		}
		s.AddLive(s.list[i].Denied)
	}
}

// AddLive is Add for live nodes.
func (s *Set) AddLive(n *Node) {
	if n != nil && n.Live {
		s.Add(n)
	}
}
