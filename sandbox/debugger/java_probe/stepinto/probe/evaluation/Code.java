package stepinto.probe.evaluation;

import com.sun.source.tree.*;
import com.sun.source.util.JavacTask;
import com.sun.source.util.SourcePositions;
import com.sun.source.util.TreeScanner;
import com.sun.source.util.Trees;
import java.io.IOException;
import java.io.StringWriter;
import java.util.*;
import javax.lang.model.SourceVersion;
import javax.tools.*;
import stepinto.probe.program.EvaluationFailed;

/** An expression, or statements, as the JDK's own parser reads them. */
final class Code {
    private static final String EXPRESSION = "class Code { Object code$ =\n";
    private static final String STATEMENTS = "class Code { static void code$() {\n";
    private static final int CONTEXT_CHARS = 20;
    private static final Set<Tree.Kind> STEPS = EnumSet.of(
            Tree.Kind.PREFIX_INCREMENT, Tree.Kind.PREFIX_DECREMENT,
            Tree.Kind.POSTFIX_INCREMENT, Tree.Kind.POSTFIX_DECREMENT);

    final String text;
    final List<Tree> trees = new ArrayList<>();

    /**
     * Why it is refused where nothing may change, after what it is: it assigns something itself,
     * with an operator, but for variables of its own; methods that it calls may do so. Else null.
     */
    final String refusal;

    /** What carries it out, step by step; null if that takes the compiler. */
    final List<Expression> steps;

    private final String head;
    private CompilationUnitTree unit;
    private SourcePositions positions;

    /** Names joined by dots: most of what is asked for, and no work for a parser. */
    private Code(String names) {
        text = names;
        head = EXPRESSION;
        refusal = null;
        steps = Collections.singletonList(new Expression.Path(names));
    }

    private Code(String text, String head, String tail) throws EvaluationFailed {
        this.text = text;
        this.head = head;
        Assignments assignments = new Assignments();
        List<Expression> found;
        try {
            Tree member = parse(tail);
            if (member instanceof VariableTree) {
                trees.add(((VariableTree) member).getInitializer());
            } else {
                trees.addAll(((MethodTree) member).getBody().getStatements());
            }
            trees.removeIf(EmptyStatementTree.class::isInstance);
            assignments.scan(trees, null);
            found = Interpreter.steps(trees);
        } catch (Interpreter.NeedsCompiler construct) {
            found = null;
        } catch (StackOverflowError | IllegalStateException overflow) {
            throw new EvaluationFailed("the code is nested too deeply");
        }
        String hint = assignments.bySign ? "; == compares" : "";
        refusal = assignments.found ? " would change the program: it assigns" + hint : null;
        steps = found;
    }

    /** One expression; a semicolon may follow it. */
    static Code expression(String text) throws EvaluationFailed {
        String plain = text.trim().replaceAll("[;\\s]+$", "");
        if (plain.isEmpty()) {
            throw new EvaluationFailed("there is no expression; write one");
        }
        return SourceVersion.isName(plain) ? new Code(plain) : new Code(plain, EXPRESSION, "\n; }");
    }

    /** The last semicolon may be missing. */
    static Code statements(String text) throws EvaluationFailed {
        return new Code(text, STATEMENTS, "\n; } }");
    }

    /** The one member of the class that the code is wrapped in. */
    private Tree parse(String tail) throws EvaluationFailed {
        DiagnosticCollector<JavaFileObject> problems = new DiagnosticCollector<>();
        JavacTask task = (JavacTask) SnippetCompiler.COMPILER.getTask(
                new StringWriter(), SnippetCompiler.FILES, problems,
                Collections.singletonList("-proc:none"), null,
                Collections.singletonList(new SnippetCompiler.Source(head + text + tail)));
        try {
            unit = task.parse().iterator().next();
        } catch (IOException impossible) {
            throw new IllegalArgumentException(impossible);
        }
        for (Diagnostic<?> problem : problems.getDiagnostics()) {
            if (problem.getKind() == Diagnostic.Kind.ERROR) {
                throw syntaxError(problem);
            }
        }
        positions = Trees.instance(task).getSourcePositions();
        List<? extends Tree> types = unit.getTypeDecls();
        List<? extends Tree> members = ((ClassTree) types.get(0)).getMembers();
        if (types.size() + members.size() > 2) {
            throw new EvaluationFailed("syntax error: more is closed than was opened, or there is"
                    + " more than one expression");
        }
        return members.get(0);
    }

    private EvaluationFailed syntaxError(Diagnostic<?> problem) {
        int at = (int) Math.max(0, Math.min(problem.getPosition() - head.length(), text.length()));
        String before = text.substring(Math.max(0, at - CONTEXT_CHARS), at).trim();
        String place = before.isEmpty() ? "at its start" : "after '" + before + "'";
        String rest = text.substring(at).trim();
        String shown = rest.substring(0, Math.min(rest.length(), CONTEXT_CHARS));
        String found = rest.isEmpty() ? "it ends" : "there is '" + shown + "'";
        String message = problem.getMessage(Locale.ROOT);
        if (message.equals("illegal start of expression")) {
            message = "an expression is needed where " + found;
        } else if (message.equals("';' expected") && isExpression()) {
            message = "the end or an operator is needed where " + found;
        }
        String help = message.contains("too large") ? "; write a long with L at its end" : "";
        return new EvaluationFailed("syntax error: " + message + " " + place + help);
    }

    boolean isExpression() {
        return head.equals(EXPRESSION);
    }

    /** The variables that statements declare outside of blocks, by name. */
    Map<String, TypeName> declared() {
        Map<String, TypeName> found = new LinkedHashMap<>();
        for (Tree tree : trees) {
            if (tree instanceof VariableTree) {
                VariableTree variable = (VariableTree) tree;
                found.put(variable.getName().toString(), TypeName.of(variable.getType()));
            }
        }
        return found;
    }

    /** Where a tree begins in the text; negative if it is not written there. */
    int start(Tree tree) {
        return (int) positions.getStartPosition(unit, tree) - head.length();
    }

    int end(Tree tree) {
        return (int) positions.getEndPosition(unit, tree) - head.length();
    }

    CompilationUnitTree unit() {
        return unit;
    }

    /** Finds an assignment to what is not declared before it in the code itself. */
    private static final class Assignments extends TreeScanner<Void, Void> {
        private final Set<String> own = new HashSet<>();
        boolean found;
        boolean bySign;

        @Override
        public Void visitVariable(VariableTree tree, Void none) {
            own.add(tree.getName().toString());
            return super.visitVariable(tree, none);
        }

        @Override
        public Void visitAssignment(AssignmentTree tree, Void none) {
            bySign = true;
            assigned(tree.getVariable());
            return super.visitAssignment(tree, none);
        }

        @Override
        public Void visitCompoundAssignment(CompoundAssignmentTree tree, Void none) {
            assigned(tree.getVariable());
            return super.visitCompoundAssignment(tree, none);
        }

        @Override
        public Void visitUnary(UnaryTree tree, Void none) {
            if (STEPS.contains(tree.getKind())) {
                assigned(tree.getExpression());
            }
            return super.visitUnary(tree, none);
        }

        private void assigned(ExpressionTree target) {
            found |= !(target instanceof IdentifierTree) || !own.contains(target.toString());
        }
    }
}
