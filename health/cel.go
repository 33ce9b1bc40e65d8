package health

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/trueup/trueup/health/internal/fields"
)

// costLimit bounds what an expression with a loop may do, in CEL's cost units: about one for each field read or
// comparison. It keeps the worst one on the biggest object near a millisecond. An expression without a loop is bounded by
// its own length, because no function here gives more than it was given.
const costLimit = 1_000

// environment declares what an expression may use; the comment of Rule lists it.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("object", cel.DynType),
		cel.OptionalTypes(),
		cel.Function("join", cel.MemberOverload("list_join", []*cel.Type{cel.ListType(cel.StringType), cel.StringType}, cel.StringType,
			cel.BinaryBinding(join))),
		reader("condition", cel.StringType, func(o fields.Map, kind string) ref.Val {
			return types.String(o.At("status").Condition(kind).Status)
		}),
		reader("reason", cel.StringType, func(o fields.Map, kind string) ref.Val {
			return types.String(o.At("status").Condition(kind).Reason)
		}),
		reader("says", cel.StringType, func(o fields.Map, kind string) ref.Val {
			if c := o.At("status").Condition(kind); c.Message != "" || c.Reason != "" {
				return types.String(c.Text())
			}
			return types.String("")
		}),
		reader("severity", cel.StringType, func(o fields.Map, kind string) ref.Val {
			return types.String(o.At("status").Condition(kind).Severity)
		}),
		reader("text", cel.StringType, func(o fields.Map, path string) ref.Val { return types.String(scalar(o.Dig(path))) }),
		reader("number", cel.IntType, func(o fields.Map, path string) ref.Val {
			n, _ := fields.Int(o.Dig(path))
			return types.Int(n)
		}),
		reader("items", cel.ListType(cel.DynType), func(o fields.Map, path string) ref.Val {
			return types.DefaultTypeAdapter.NativeToValue(fields.List(o.Dig(path)))
		}),
		reader("present", cel.BoolType, func(o fields.Map, path string) ref.Val { return types.Bool(o.Dig(path) != nil) }),
	)
})

// reader declares a function object.NAME(string) that reads the object in place.
func reader(name string, result *cel.Type, read func(o fields.Map, arg string) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload("object_"+name, []*cel.Type{cel.DynType, cel.StringType}, result,
		cel.BinaryBinding(func(object, arg ref.Val) ref.Val {
			m, ok := object.Value().(map[string]any)
			s, isString := arg.Value().(string)
			if !ok || !isString {
				return types.NewErr("%s: wants an object and a string", name)
			}
			return read(m, s)
		})))
}

// join is the one function of CEL's string extension that is here: its replace can make a terabyte of a megabyte.
func join(list, separator ref.Val) ref.Val {
	items, err := list.ConvertToNative(reflect.TypeFor[[]string]())
	sep, ok := separator.Value().(string)
	if err != nil || !ok {
		return types.NewErr("join: wants a list of strings and a string")
	}
	return types.String(strings.Join(items.([]string), sep))
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return fields.Clip(v, fields.MaxMessage)
	case bool, int64, float64:
		return fmt.Sprint(v)
	}
	return ""
}

// An expression is compiled CEL that gives a value of one type.
type expression struct {
	source  string
	program cel.Program
}

// compile checks and plans source, which has to give a value of the wanted type, or one that is only known when it runs.
func compile(env *cel.Env, source string, want *cel.Type) (*expression, error) {
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if got := checked.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("gives a %s, wanted a %s: %s", got, want, source)
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if hasLoop(checked) {
		options = append(options, cel.CostLimit(costLimit), cel.CostTracking(callCost{}))
	}
	program, err := env.Program(checked, options...)
	if err != nil {
		return nil, fmt.Errorf("planning %s: %w", source, err)
	}
	return &expression{source: source, program: program}, nil
}

// hasLoop reports whether a macro of the expression (exists, all, map, filter …) runs over a list.
func hasLoop(checked *cel.Ast) bool {
	loops := ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.ComprehensionKind))
	return len(loops) > 0
}

// callCost is what a call costs, from the sizes of what goes into it. CEL's own would count the characters of each string.
type callCost struct{}

func (callCost) CallCost(_, _ string, args []ref.Val, _ ref.Val) *uint64 {
	cost := uint64(1)
	for _, arg := range args {
		switch v := arg.(type) {
		case types.String:
			cost += uint64(len(v)) / 10
		case traits.Sizer:
			n, _ := v.Size().Value().(int64)
			cost += uint64(n)
		}
	}
	return &cost
}

// activation binds the variable object to a view of the object: nothing is copied.
type activation struct{ object ref.Val }

func bind(o fields.Map) activation {
	return activation{types.DefaultTypeAdapter.NativeToValue(map[string]any(o))}
}

func (a activation) ResolveName(name string) (any, bool) {
	if name == "object" {
		return a.object, true
	}
	return nil, false
}

func (a activation) Parent() cel.Activation { return nil }

// eval runs e on an object; T is bool or string.
func eval[T bool | string](e *expression, a cel.Activation) (T, error) {
	var zero T
	v, _, err := e.program.Eval(a)
	if err != nil {
		return zero, err
	}
	got, ok := v.Value().(T)
	if !ok {
		return zero, fmt.Errorf("gave a %s, wanted a %T", v.Type().TypeName(), zero)
	}
	return got, nil
}
