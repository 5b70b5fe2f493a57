package mapdef

import "strconv"

// BlockKind says how a block belongs to its step.
type BlockKind string

// The kinds of blocks.
const (
	BlockCase    BlockKind = "case"
	BlockDefault BlockKind = "default"
	BlockBody    BlockKind = "body" // of a loop
	BlockBranch  BlockKind = "branch"
	BlockCatch   BlockKind = "catch"
)

// Block is a list of steps within a step.
type Block struct {
	Kind    BlockKind
	Index   int    // of the case, branch or catch; 0 for others
	Label   string // the id of a branch; "" for others
	Pointer string // JSON Pointer of the list in the definition
	Steps   []Step
}

// Blocks returns the blocks within the step, in the order of the definition, those of its
// catch last.
func (s *Step) Blocks() []Block {
	var list []Block
	switch do := s.Do.(type) {
	case *DoSwitch:
		for i, c := range do.Cases {
			list = append(list, Block{BlockCase, i, "", s.Pointer + "/cases/" + strconv.Itoa(i) + "/steps", c.Steps})
		}
		if do.Default != nil {
			list = append(list, Block{BlockDefault, 0, "", s.Pointer + "/default", do.Default})
		}
	case *DoWhile:
		list = append(list, Block{BlockBody, 0, "", s.Pointer + "/steps", do.Steps})
	case *DoForeach:
		list = append(list, Block{BlockBody, 0, "", s.Pointer + "/steps", do.Steps})
	case *DoParallel:
		for i, b := range do.Branches {
			list = append(list, Block{BlockBranch, i, b.ID, s.Pointer + "/branches/" + strconv.Itoa(i) + "/steps", b.Steps})
		}
	default: // the others have none
	}
	for i, c := range s.Catch {
		list = append(list, Block{BlockCatch, i, "", s.Pointer + "/catch/" + strconv.Itoa(i) + "/steps", c.Steps})
	}
	return list
}

// Walk calls f with every step of the list and of the blocks within, each before its blocks.
func Walk(steps []Step, f func(*Step)) {
	for i := range steps {
		f(&steps[i])
		for _, b := range steps[i].Blocks() {
			Walk(b.Steps, f)
		}
	}
}
