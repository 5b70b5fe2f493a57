package stepmachine

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Commands are commands that are stored, each with its name.
type Commands []Command

type namedCommand struct {
	Name    string          `json:"name"`
	Command json.RawMessage `json:"command"`
}

// sharingCommands are commands whose values are apart.
type sharingCommands struct {
	Values   []json.RawMessage `json:"values"`
	Commands []namedCommand    `json:"commands"`
}

// MarshalJSON implements json.Marshaler. The commands are a list. Where they have many bytes of values,
// it is an object with the list and the values, each once.
func (c Commands) MarshalJSON() ([]byte, error) {
	s := &shared{places: map[string]int{}}
	for _, command := range c {
		withValues(command, s.count, s.countForm)
	}
	list := make([]namedCommand, len(c))
	for i, command := range c {
		if s.bytes > shareFrom {
			command = withValues(command, s.put, s.putForm)
		}
		raw, err := json.Marshal(command)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", command.Name(), err)
		}
		list[i] = namedCommand{command.Name(), raw}
	}
	if len(s.values) == 0 {
		return json.Marshal(list)
	}
	return json.Marshal(sharingCommands{s.values, list})
}

// UnmarshalJSON implements json.Unmarshaler. It knows the commands that have an answer.
func (c *Commands) UnmarshalJSON(raw []byte) error {
	var in sharingCommands
	var into any = &in.Commands
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte{'{'}) {
		into = &in
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	s := &shared{values: in.Values}
	*c = make(Commands, len(in.Commands))
	for i, one := range in.Commands {
		command, err := one.decode()
		if err == nil && in.Values != nil {
			command = withValues(command, s.get, s.getForm)
			err = s.failed
		}
		if err != nil {
			return fmt.Errorf("decode %s: %w", one.Name, err)
		}
		(*c)[i] = command
	}
	return nil
}

func (n namedCommand) decode() (Command, error) {
	switch n.Name {
	case StartVerb{}.Name():
		return decoded[StartVerb](n.Command)
	case StartModel{}.Name():
		return decoded[StartModel](n.Command)
	case StartMap{}.Name():
		return decoded[StartMap](n.Command)
	case Evaluate{}.Name():
		return decoded[Evaluate](n.Command)
	case StartTimer{}.Name():
		return decoded[StartTimer](n.Command)
	case AskApproval{}.Name():
		return decoded[AskApproval](n.Command)
	case AwaitEvent{}.Name():
		return decoded[AwaitEvent](n.Command)
	case Compensate{}.Name():
		return decoded[Compensate](n.Command)
	default:
		return nil, fmt.Errorf("%q is no command with an answer", n.Name)
	}
}

func decoded[C Command](raw json.RawMessage) (Command, error) {
	var c C
	err := json.Unmarshal(raw, &c)
	return c, err
}
