package stepinto.probe.evaluation;

import com.sun.jdi.ClassType;
import com.sun.jdi.Value;
import com.sun.source.tree.*;
import com.sun.source.util.SimpleTreeVisitor;
import java.util.*;
import javax.lang.model.SourceVersion;
import stepinto.probe.program.EvaluationFailed;

/** Makes of parsed Java what can be carried out through the debug interface. */
final class Interpreter extends SimpleTreeVisitor<Expression, Void> {
    /** Java that is not interpreted: lambdas, anonymous classes, loops, switch, try ... */
    static final class NeedsCompiler extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    /** Operators by the names of their kinds of trees. */
    private static final Map<String, String> OPERATORS = new HashMap<>();

    static {
        String[] words = ("MULTIPLY * DIVIDE / REMAINDER % PLUS + MINUS - LEFT_SHIFT <<"
                + " RIGHT_SHIFT >> UNSIGNED_RIGHT_SHIFT >>> LESS_THAN < GREATER_THAN >"
                + " LESS_THAN_EQUAL <= GREATER_THAN_EQUAL >= EQUAL_TO == NOT_EQUAL_TO !="
                + " AND & XOR ^ OR | CONDITIONAL_AND && CONDITIONAL_OR || UNARY_PLUS +"
                + " UNARY_MINUS - BITWISE_COMPLEMENT ~ LOGICAL_COMPLEMENT ! PREFIX_INCREMENT +"
                + " PREFIX_DECREMENT - POSTFIX_INCREMENT + POSTFIX_DECREMENT -").split(" ");
        for (int at = 0; at < words.length; at += 2) {
            OPERATORS.put(words[at], words[at + 1]);
        }
    }

    /** An expression, declarations of variables, and expressions that are statements. */
    static List<Expression> steps(List<Tree> trees) {
        Interpreter interpreter = new Interpreter();
        List<Expression> found = new ArrayList<>();
        for (Tree tree : trees) {
            found.add(interpreter.visit(tree, null));
        }
        return found;
    }

    private Expression of(Tree tree) {
        return visit(tree, null);
    }

    private static String operator(Tree tree) {
        return OPERATORS.get(tree.getKind().name().replace("_ASSIGNMENT", ""));
    }

    @Override
    protected Expression defaultAction(Tree tree, Void none) {
        throw new NeedsCompiler();
    }

    @Override
    public Expression visitExpressionStatement(ExpressionStatementTree tree, Void none) {
        return of(tree.getExpression());
    }

    @Override
    public Expression visitVariable(VariableTree tree, Void none) {
        TypeName type = TypeName.of(tree.getType());
        String name = tree.getName().toString();
        Tree initializer = tree.getInitializer();
        Expression value = initializer == null ? null : of(initializer);
        return scope -> {
            String binary = type.isVar() ? null : type.resolve(scope);
            Operand first = value == null ? scope.operators.zero(binary) : value.evaluate(scope);
            scope.declare(name, type, first);
            return first;
        };
    }

    @Override
    public Expression visitLiteral(LiteralTree tree, Void none) {
        return new Expression.Literal(tree.getValue());
    }

    @Override
    public Expression visitParenthesized(ParenthesizedTree tree, Void none) {
        return of(tree.getExpression());
    }

    @Override
    public Expression visitAssignment(AssignmentTree tree, Void none) {
        Expression target = of(tree.getVariable());
        Expression value = of(tree.getExpression());
        return scope -> {
            Expression.Variable variable = target.variable(scope);
            return variable.set(value.evaluate(scope));
        };
    }

    @Override
    public Expression visitCompoundAssignment(CompoundAssignmentTree tree, Void none) {
        Expression target = of(tree.getVariable());
        Expression value = of(tree.getExpression());
        String operator = operator(tree);
        return scope -> {
            Expression.Variable variable = target.variable(scope);
            return Operations.combine(scope, variable, operator, value.evaluate(scope));
        };
    }

    @Override
    public Expression visitConditionalExpression(ConditionalExpressionTree tree, Void none) {
        Expression condition = of(tree.getCondition());
        Expression yes = of(tree.getTrueExpression());
        Expression no = of(tree.getFalseExpression());
        return scope -> {
            boolean truth = scope.truth(condition, "the condition before ?");
            Operand chosen = (truth ? yes : no).evaluate(scope);
            Tree other = truth ? tree.getFalseExpression() : tree.getTrueExpression();
            try {
                // Its type is known by its value, for which only what calls nothing is evaluated.
                return other.toString().matches("-?[\\w.\\[\\] */%]+")
                        ? scope.operators.promoted(chosen, (truth ? no : yes).evaluate(scope))
                        : chosen;
            } catch (EvaluationFailed absent) {
                return chosen;
            }
        };
    }

    @Override
    public Expression visitBinary(BinaryTree tree, Void none) {
        Expression first = of(tree.getLeftOperand());
        Expression second = of(tree.getRightOperand());
        String operator = operator(tree);
        boolean and = operator.equals("&&");
        if (!and && !operator.equals("||")) {
            return scope -> Operations.binary(scope, operator, first, second);
        }
        String role = "an operand of " + operator;
        return scope -> Operand.of(scope.machine().mirrorOf(
                scope.truth(first, role) == and ? scope.truth(second, role) : !and));
    }

    @Override
    public Expression visitUnary(UnaryTree tree, Void none) {
        Expression operand = of(tree.getExpression());
        String operator = operator(tree);
        String kind = tree.getKind().name();
        if (!kind.endsWith("CREMENT")) {
            return scope -> scope.operators.unary(operator, operand.evaluate(scope));
        }
        return scope -> {
            Expression.Variable variable = operand.variable(scope);
            Operand old = variable.get();
            Operand one = Operand.of(scope.machine().mirrorOf(1));
            Operand stepped = Operations.combine(scope, variable, operator, one);
            return kind.startsWith("PREFIX") ? stepped : old;
        };
    }

    @Override
    public Expression visitInstanceOf(InstanceOfTree tree, Void none) {
        Expression operand = of(tree.getExpression());
        String text = tree.toString();
        String head = " instanceof " + tree.getType();
        int at = text.lastIndexOf(head);
        if (at < 0) {
            throw new NeedsCompiler(); // the pattern of a record
        }
        TypeName type = TypeName.of(tree.getType());
        String name = text.substring(at + head.length()).trim();
        return scope -> {
            Value value = operand.evaluate(scope).value;
            String wanted = type.resolve(scope);
            boolean truth = value != null
                    && scope.types.assignable(value.type().name(), wanted, scope.here);
            if (truth && !name.isEmpty()) {
                scope.declare(name, type, Operand.of(value));
            }
            return Operand.of(scope.machine().mirrorOf(truth));
        };
    }

    @Override
    public Expression visitTypeCast(TypeCastTree tree, Void none) {
        TypeName type = TypeName.of(tree.getType());
        Expression operand = of(tree.getExpression());
        return scope -> {
            String to = type.resolve(scope);
            Operand from = operand.evaluate(scope);
            return Operand.of(scope.operators.cast(from, to, scope.here), to);
        };
    }

    @Override
    public Expression visitArrayAccess(ArrayAccessTree tree, Void none) {
        Expression array = of(tree.getExpression());
        Expression index = of(tree.getIndex());
        Expression.Place element = scope -> Operations.element(scope, array, index);
        return element;
    }

    @Override
    public Expression visitIdentifier(IdentifierTree tree, Void none) {
        String name = tree.getName().toString();
        return name.equals("this") ? self(null) : new Expression.Path(name);
    }

    @Override
    public Expression visitMemberSelect(MemberSelectTree tree, Void none) {
        String name = tree.getIdentifier().toString();
        Tree owner = tree.getExpression();
        if (name.equals("class")) {
            TypeName type = TypeName.of(owner);
            return scope -> type.mirror(scope);
        }
        if (name.equals("this")) {
            return self(TypeName.of(owner));
        }
        if (SourceVersion.isName(tree.toString())) {
            return new Expression.Path(tree.toString());
        }
        return new Expression.Member(isSuper(owner) ? Interpreter::parent : of(owner), name);
    }

    /** {@code this} as its superclass declares it, whose fields its own class may hide. */
    private static Operand parent(Scope scope) throws EvaluationFailed {
        if (scope.self() == null) {
            throw scope.noSelf("super");
        }
        return Operand.of(scope.self(), ((ClassType) scope.here).superclass().name());
    }

    private static boolean isSuper(Tree tree) {
        return tree.toString().equals("super");
    }

    /** {@code this}, or {@code Outer.this}. */
    private static Expression self(TypeName outer) {
        return scope -> {
            String wanted = outer == null ? scope.here.name() : outer.resolve(scope);
            for (Scope.Level level : scope.levels()) {
                if (level.instance != null && level.type.name().equals(wanted)) {
                    return Operand.of(level.instance, wanted);
                }
            }
            if (scope.self() == null) {
                throw scope.noSelf("this");
            }
            throw new EvaluationFailed("there is no " + outer + ".this here");
        };
    }

    @Override
    public Expression visitMethodInvocation(MethodInvocationTree tree, Void none) {
        List<Expression> arguments = steps(new ArrayList<>(tree.getArguments()));
        if (tree.getMethodSelect() instanceof IdentifierTree) {
            String name = tree.getMethodSelect().toString();
            return scope -> Operations.callByName(scope, name, arguments);
        }
        MemberSelectTree select = (MemberSelectTree) tree.getMethodSelect();
        String name = select.getIdentifier().toString();
        if (isSuper(select.getExpression())) {
            return scope -> Operations.callSuper(scope, name, arguments);
        }
        Expression owner = of(select.getExpression());
        return scope -> Operations.call(scope, owner.evaluate(scope), name, arguments);
    }

    @Override
    public Expression visitNewClass(NewClassTree tree, Void none) {
        if (tree.getClassBody() != null || tree.getEnclosingExpression() != null) {
            throw new NeedsCompiler();
        }
        TypeName type = TypeName.of(tree.getIdentifier());
        List<Expression> arguments = steps(new ArrayList<>(tree.getArguments()));
        return scope -> Operations.create(scope, type, arguments);
    }
}
