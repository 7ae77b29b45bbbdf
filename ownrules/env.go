package ownrules

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/nodetrail/nodetrail/internal/expr"
	"github.com/nodetrail/nodetrail/internal/spelling"
)

// maxCost bounds the cost of an expression on one request, see [expr.Check].
const maxCost = 5_000

// provider has a type for each group of fields. Their values are asked for when an expression needs them.
type provider struct{ types.Provider }

const typePrefix = "nodetrail."

// FindStructType implements types.Provider.
func (p provider) FindStructType(name string) (*types.Type, bool) {
	for _, g := range groups {
		if name == typePrefix+g {
			return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
		}
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldType implements types.Provider.
func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	for i := range fields {
		f := &fields[i]
		if name != typePrefix+f.Group || field != f.Name {
			continue
		}
		return &types.FieldType{
			Type:  f.kind.cel(),
			IsSet: func(target any) bool { s, is := target.(*subject); return is && f.isKnown(s) },
			GetFrom: func(target any) (any, error) {
				s, is := target.(*subject)
				if !is || !f.isKnown(s) {
					return nil, fmt.Errorf("%s is not known", f.Path())
				}
				return f.of(s), nil
			},
		}, true
	}
	return p.Provider.FindStructFieldType(name, field)
}

// NewValue implements types.Provider: no expression makes a request.
func (p provider) NewValue(name string, values map[string]ref.Val) ref.Val {
	if _, ours := p.FindStructType(name); ours {
		return types.NewErr("%s cannot be made", name)
	}
	return p.Provider.NewValue(name, values)
}

func environment() (*cel.Env, error) {
	reg, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("making the environment of expressions: %w", err)
	}
	opts := []cel.EnvOption{
		cel.CustomTypeProvider(provider{reg}), cel.CustomTypeAdapter(reg),
		cel.ClearMacros(), cel.Macros(cel.HasMacro), // no loops
	}
	for _, g := range groups {
		opts = append(opts, cel.Variable(g, cel.ObjectType(typePrefix+g)))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		return nil, fmt.Errorf("making the environment of expressions: %w", err)
	}
	return env, nil
}

// scope is the variables of an expression. The groups are the same subject: their fields tell them apart.
type scope struct{ s *subject }

// ResolveName implements cel.Activation.
func (a *scope) ResolveName(name string) (any, bool) {
	if slices.Contains(groups, name) {
		return a.s, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (*scope) Parent() cel.Activation { return nil }

// expression is a compiled match.
type expression struct {
	whole cel.Program
	// filters are the parts of a conjunction that look at one field each, by field.
	filters map[*Field][]cel.Program
	// rest says that there are other parts: filters that hold do not make the whole true.
	rest bool
}

// compile checks an expression. An error is an *expr.Error.
func compile(env *cel.Env, source string) (*expression, error) {
	ast, err := expr.Check(env, source, maxCost)
	if err != nil {
		return nil, withHint(err)
	}
	if err := checkValues(ast); err != nil {
		return nil, err
	}
	out := &expression{filters: map[*Field][]cel.Program{}}
	if out.whole, err = expr.Program(env, ast, maxCost); err != nil {
		return nil, err
	}
	native := ast.NativeRep()
	for _, part := range conjuncts(native.Expr()) {
		f := soleField(part)
		if f == nil || f.kind == list || f.kind == timestamp || f.known != nil {
			out.rest = true
			continue
		}
		checked := celast.NewCheckedAST(celast.NewAST(part, native.SourceInfo()), native.TypeMap(), native.ReferenceMap())
		p, err := env.PlanProgram(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
		if err != nil {
			return nil, &expr.Error{Text: err.Error()}
		}
		out.filters[f] = append(out.filters[f], p)
	}
	return out, nil
}

// conjuncts are the parts of a && b && c. A conjunction is false where one of them is false, even where another one fails.
func conjuncts(e celast.Expr) []celast.Expr {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.LogicalAnd {
		return []celast.Expr{e}
	}
	var out []celast.Expr
	for _, a := range e.AsCall().Args() {
		out = append(out, conjuncts(a)...)
	}
	return out
}

// soleField is the one field that an expression looks at; nil where it is none, several, or something else.
func soleField(e celast.Expr) *Field {
	var sole *Field
	plain := true
	celast.PreOrderVisit(e, celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.LiteralKind, celast.CallKind, celast.ListKind, celast.IdentKind: // a group by itself has no value
		case celast.SelectKind:
			f := fieldIn(e)
			plain = plain && f != nil && (sole == nil || sole == f)
			sole = f
		default:
			plain = false
		}
	}))
	if !plain {
		return nil
	}
	return sole
}

// fieldIn is the field that a selection such as request.verb names, nil for any other.
func fieldIn(e celast.Expr) *Field {
	sel := e.AsSelect()
	if op := sel.Operand(); op.Kind() == celast.IdentKind {
		return fieldOf(op.AsIdent() + "." + sel.FieldName())
	}
	return nil
}

// checkValues refuses a comparison of a field that has few values with something else, which would never be true, and an expression that makes a
// message.
func checkValues(a *cel.Ast) error {
	native := a.NativeRep()
	var wrong error
	celast.PreOrderVisit(native.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if wrong == nil && e.Kind() == celast.StructKind {
			at := native.SourceInfo().GetStartLocation(e.ID())
			wrong = &expr.Error{Line: at.Line(), Column: at.Column() + 1, Text: "an expression cannot make a " + e.AsStruct().TypeName()}
		}
		if wrong != nil || e.Kind() != celast.CallKind {
			return
		}
		call := e.AsCall()
		if name := call.FunctionName(); name != operators.Equals && name != operators.NotEquals && name != operators.In {
			return
		}
		var f *Field
		var literals []celast.Expr
		for _, arg := range call.Args() {
			switch arg.Kind() {
			case celast.SelectKind:
				f = fieldIn(arg)
			case celast.LiteralKind:
				literals = append(literals, arg)
			case celast.ListKind:
				literals = append(literals, arg.AsList().Elements()...)
			}
		}
		if f == nil || f.Values == nil {
			return
		}
		for _, l := range literals {
			if l.Kind() != celast.LiteralKind {
				continue
			}
			if s, is := l.AsLiteral().Value().(string); is && !slices.Contains(f.Values, s) {
				at := native.SourceInfo().GetStartLocation(l.ID())
				wrong = &expr.Error{Line: at.Line(), Column: at.Column() + 1, Text: fmt.Sprintf("%s is never %q: it is one of %q", f.Path(), s, f.Values)}
				return
			}
		}
	}))
	return wrong
}

// withHint adds what a mistyped field may have been.
func withHint(err error) error {
	e, is := err.(*expr.Error) //nolint:errorlint // expr.Check returns nothing else
	if !is {
		return err
	}
	var name string
	if _, scanErr := fmt.Sscanf(e.Text, "undefined field '%s", &name); scanErr == nil {
		var names []string
		for i := range fields {
			names = append(names, fields[i].Name)
		}
		if meant := spelling.Meant(name[:max(0, len(name)-1)], names); meant != "" {
			e.Text += ": " + meant
		}
	}
	return e
}
