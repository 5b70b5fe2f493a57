package stepmachine

import (
	"encoding/json"
	"fmt"
)

// Commands are commands that are stored, each with its name.
type Commands []Command

type namedCommand struct {
	Name    string          `json:"name"`
	Command json.RawMessage `json:"command"`
}

// MarshalJSON implements json.Marshaler.
func (c Commands) MarshalJSON() ([]byte, error) {
	list := make([]namedCommand, len(c))
	for i, command := range c {
		raw, err := json.Marshal(command)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", command.Name(), err)
		}
		list[i] = namedCommand{command.Name(), raw}
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements json.Unmarshaler. It knows the commands that have an answer.
func (c *Commands) UnmarshalJSON(raw []byte) error {
	var list []namedCommand
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	*c = make(Commands, len(list))
	for i, one := range list {
		command, err := one.decode()
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
