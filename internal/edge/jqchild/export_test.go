package jqchild

// Idle returns the ids of the children that do nothing.
func (p *Pool) Idle() (pids []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		pids = append(pids, c.process.Process.Pid)
	}
	return pids
}
