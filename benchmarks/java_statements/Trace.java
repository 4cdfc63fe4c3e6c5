import com.sun.jdi.*;
import com.sun.jdi.connect.Connector;
import com.sun.jdi.connect.LaunchingConnector;
import com.sun.jdi.event.*;
import com.sun.jdi.request.StepRequest;
import com.sun.source.tree.*;
import com.sun.source.util.*;
import java.nio.file.Path;
import java.util.*;
import java.util.stream.IntStream;
import javax.tools.*;

/**
 * Which statements a program executes, told by single steps of the virtual machine alone. It prints
 * the lines at which statements begin, then a line for each execution: its line, and the variables
 * before it as {@code NAME=VALUE}, all apart by tabs.
 *
 * <p>Usage: {@code java Trace.java SOURCE CLASSPATH MAIN}. Only the classes of the source are looked
 * at.
 */
public class Trace {
    /** The statements that begin on each line, as their extents. */
    private final Map<Integer, Extent> statements = new TreeMap<>();
    private final Deque<Frame> frames = new ArrayDeque<>();

    /**
     * The lines of a statement; entered from outside of them it is executed once more. Not so if it
     * was on its way out of a try: then it comes back from one of {@code cleanUp}, the lines of
     * finally blocks and where resources are closed.
     */
    private record Extent(
            int first, int last, boolean oneLineLoop, boolean nested, Set<Integer> cleanUp) {
        boolean holds(int line) {
            return first <= line && line <= last;
        }
    }

    private static final class Frame {
        final int depth;
        final Method method;
        int line;
        long index;

        Frame(int depth, Method method) {
            this.depth = depth;
            this.method = method;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Trace trace = new Trace();
        trace.readSource(Path.of(arguments[0]));
        StringJoiner lines = new StringJoiner("\t");
        trace.statements.keySet().forEach(line -> lines.add(line.toString()));
        System.out.println(lines);
        trace.run(arguments[1], arguments[2]);
    }

    private void readSource(Path source) throws Exception {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null);
        JavacTask task = (JavacTask) compiler.getTask(
                null, files, null, null, null, files.getJavaFileObjects(source));
        for (CompilationUnitTree unit : task.parse()) {
            Reader reader = new Reader(unit, Trees.instance(task).getSourcePositions());
            reader.scan(unit, null);
            reader.lambdas.forEach(statements::putIfAbsent);
        }
    }

    /** Finds the statements, and the expressions that are the bodies of lambdas. */
    private final class Reader extends TreeScanner<Void, Void> {
        private final CompilationUnitTree unit;
        private final SourcePositions positions;
        final Map<Integer, Extent> lambdas = new HashMap<>();
        private int nested;
        /** The clean-up of the tries around. */
        private Set<Integer> cleanUp = Set.of();

        Reader(CompilationUnitTree unit, SourcePositions positions) {
            this.unit = unit;
            this.positions = positions;
        }

        @Override
        public Void scan(Tree tree, Void none) {
            boolean runs = tree instanceof StatementTree
                    && !(tree instanceof BlockTree || tree instanceof ClassTree)
                    && !(tree instanceof VariableTree variable && variable.getInitializer() == null);
            if (runs) {
                add(tree);
            }
            return super.scan(tree, none);
        }

        @Override
        public Void visitMethod(MethodTree tree, Void none) {
            return scan(tree.getBody(), none); // its parameters are no statements
        }

        @Override
        public Void visitClass(ClassTree tree, Void none) {
            for (Tree member : tree.getMembers()) {
                // The constants of an enum look like variables.
                if (tree.getKind() != Tree.Kind.ENUM || !(member instanceof VariableTree)) {
                    scan(member, none);
                }
            }
            return none;
        }

        @Override
        public Void visitCatch(CatchTree tree, Void none) {
            return scan(tree.getBlock(), none);
        }

        @Override
        public Void visitLambdaExpression(LambdaExpressionTree tree, Void none) {
            nested++;
            if (tree.getBody() instanceof ExpressionTree) {
                int line = first(tree.getBody());
                lambdas.putIfAbsent(line, new Extent(line, line, false, true, Set.of()));
            }
            Set<Integer> around = cleanUp;
            cleanUp = Set.of();
            scan(tree.getBody(), none);
            cleanUp = around;
            nested--;
            return none;
        }

        @Override
        public Void visitTry(TryTree tree, Void none) {
            scan(tree.getResources(), none);
            Set<Integer> around = cleanUp;
            Tree last = tree.getFinallyBlock();
            cleanUp = new HashSet<>(around);
            if (last != null) {
                IntStream.rangeClosed(first(last), last(last)).forEach(cleanUp::add);
            }
            scan(tree.getCatches(), none);
            if (!tree.getResources().isEmpty()) {
                cleanUp = new HashSet<>(cleanUp);
                cleanUp.add(last(tree.getBlock()));
            }
            scan(tree.getBlock(), none);
            cleanUp = around;
            return scan(last, none);
        }

        @Override
        public Void visitNewClass(NewClassTree tree, Void none) {
            nested += tree.getClassBody() == null ? 0 : 1;
            super.visitNewClass(tree, none);
            nested -= tree.getClassBody() == null ? 0 : 1;
            return none;
        }

        private void add(Tree tree) {
            int first = first(tree);
            int last = last(tree);
            Tree body = tree instanceof WhileLoopTree loop ? loop.getStatement()
                    : tree instanceof ForLoopTree loop ? loop.getStatement()
                    : tree instanceof EnhancedForLoopTree loop ? loop.getStatement() : null;
            boolean oneLine = body != null && first == last;
            if (body != null && !oneLine) {
                // Its head: each turn comes back to it from the body.
                last = Math.max(first, first(body) - (body instanceof BlockTree ? 0 : 1));
            }
            // What only jumps has no code before the clean-up.
            boolean jump = tree instanceof BreakTree || tree instanceof ContinueTree
                    || tree instanceof ReturnTree back && back.getExpression() == null;
            Set<Integer> after = jump ? Set.of() : cleanUp;
            statements.putIfAbsent(first, new Extent(first, last, oneLine, nested > 0, after));
        }

        private int last(Tree tree) {
            return line(positions.getEndPosition(unit, tree));
        }

        private int first(Tree tree) {
            return line(positions.getStartPosition(unit, tree));
        }

        private int line(long position) {
            return (int) unit.getLineMap().getLineNumber(position);
        }
    }

    private void run(String classPath, String main) throws Exception {
        LaunchingConnector connector = Bootstrap.virtualMachineManager().defaultConnector();
        Map<String, Connector.Argument> given = connector.defaultArguments();
        given.get("main").setValue(main);
        given.get("options").setValue("-ea -cp " + classPath);
        VirtualMachine machine = connector.launch(given);
        while (true) {
            EventSet set = machine.eventQueue().remove();
            for (Event event : set) {
                if (event instanceof VMStartEvent start) {
                    follow(start.thread(), main);
                } else if (event instanceof StepEvent step) {
                    onStep(step);
                } else if (event instanceof VMDisconnectEvent) {
                    return;
                }
            }
            set.resume();
        }
    }

    private static void follow(ThreadReference thread, String main) {
        StepRequest step = thread.virtualMachine().eventRequestManager().createStepRequest(
                thread, StepRequest.STEP_MIN, StepRequest.STEP_INTO);
        step.addClassFilter(main + "*");
        step.enable();
    }

    private void onStep(StepEvent event) throws Exception {
        Location place = event.location();
        int depth = event.thread().frameCount();
        while (!frames.isEmpty() && frames.peek().depth > depth) {
            frames.pop();
        }
        Frame top = frames.peek();
        boolean entered = top == null || top.depth < depth || !top.method.equals(place.method())
                || place.codeIndex() == 0;
        if (entered) {
            if (top != null && top.depth == depth) {
                frames.pop();
            }
            top = new Frame(depth, place.method());
            frames.push(top);
        }
        int line = place.lineNumber();
        Extent extent = statements.get(line);
        if (extent != null && runs(extent, place)) {
            boolean back = place.codeIndex() < top.index;
            // Not where two branches meet, which javac gives the line of the last.
            boolean leaves = !back && extent.cleanUp.contains(top.line);
            boolean outside = !extent.holds(top.line) && !leaves && (back || begins(place));
            if (outside || extent.oneLineLoop && line == top.line && back) {
                tell(event.thread().frame(0), place);
            }
        }
        top.line = line;
        top.index = place.codeIndex();
    }

    /** Whether the method of a place is the one that the statement is in, not a lambda within. */
    private boolean runs(Extent extent, Location place) {
        String method = place.method().name();
        String type = place.declaringType().name();
        boolean inner = method.startsWith("lambda$") || type.matches(".*\\$\\d+");
        if (!inner || !extent.nested) {
            return inner == extent.nested;
        }
        // Of lambdas on one line the outer one has it.
        return frames.stream().skip(1).noneMatch(frame -> extent.holds(frame.line));
    }

    private static boolean begins(Location place) throws AbsentInformationException {
        return place.method().locationsOfLine(place.lineNumber()).contains(place);
    }

    private static void tell(StackFrame frame, Location place) throws Exception {
        StringJoiner text = new StringJoiner("\t").add(Integer.toString(place.lineNumber()));
        ReferenceType type = place.declaringType();
        for (ReferenceType each : type.virtualMachine().allClasses()) {
            Field tick = each.fieldByName("tick");
            if (tick != null && type.name().startsWith(each.name())) {
                text.add("tick=" + each.getValue(tick));
                break;
            }
        }
        for (LocalVariable variable : frame.visibleVariables()) {
            Value value = frame.getValue(variable);
            if (value instanceof PrimitiveValue || value instanceof StringReference) {
                text.add(variable.name() + "=" + value.toString().replace("\n", "\\n"));
            }
        }
        System.out.println(text);
    }
}
