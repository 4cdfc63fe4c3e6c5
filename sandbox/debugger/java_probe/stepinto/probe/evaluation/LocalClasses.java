package stepinto.probe.evaluation;

import com.sun.source.tree.*;
import com.sun.source.util.*;
import java.io.IOException;
import java.io.StringWriter;
import java.util.*;
import java.util.regex.Pattern;
import javax.tools.JavaFileObject;

/** The classes of a name that the blocks of a source file declare, innermost last. */
final class LocalClasses {
    private final List<Declared> declared = new ArrayList<>();

    /** One of them, by its lines. */
    static final class Declared {
        /** How many classes are around it. */
        final int depth;
        final long first;
        final long last;
        /** The last line of the block that it is in. */
        final long end;

        Declared(int depth, long first, long last, long end) {
            this.depth = depth;
            this.first = first;
            this.last = last;
            this.end = end;
        }
    }

    LocalClasses(String[] lines, String name) {
        String text = String.join("\n", lines);
        // Spares reading the file for a name that it does not declare.
        String keywords = "\\b(class|record|enum|interface)\\s+";
        if (!Pattern.compile(keywords + Pattern.quote(name) + "\\b").matcher(text).find()) {
            return;
        }
        JavacTask task = (JavacTask) SnippetCompiler.COMPILER.getTask(
                new StringWriter(), SnippetCompiler.FILES, problem -> { },
                Collections.singletonList("-proc:none"), null,
                Collections.<JavaFileObject>singletonList(new SnippetCompiler.Source(text)));
        try {
            CompilationUnitTree unit = task.parse().iterator().next();
            new Reader(unit, Trees.instance(task).getSourcePositions(), name).scan(unit, null);
        } catch (IOException impossible) {
            throw new IllegalArgumentException(impossible);
        }
    }

    /** The one in scope on a line in a class that so many are around; null if there is none. */
    Declared at(long line, int depth) {
        Declared found = null;
        for (Declared each : declared) {
            boolean inScope = each.first <= line && line <= each.end;
            found = inScope && each.depth == depth ? each : found;
        }
        return found;
    }

    private final class Reader extends TreePathScanner<Void, Void> {
        private final CompilationUnitTree unit;
        private final SourcePositions positions;
        private final String name;
        private int depth;

        Reader(CompilationUnitTree unit, SourcePositions positions, String name) {
            this.unit = unit;
            this.positions = positions;
            this.name = name;
        }

        @Override
        public Void visitClass(ClassTree tree, Void none) {
            Tree parent = getCurrentPath().getParentPath().getLeaf();
            boolean local = parent instanceof BlockTree || parent instanceof CaseTree;
            if (local && tree.getSimpleName().contentEquals(name)) {
                long first = line(positions.getStartPosition(unit, tree));
                declared.add(new Declared(depth, first, last(tree), last(parent)));
            }
            depth++;
            super.visitClass(tree, none);
            depth--;
            return none;
        }

        private long last(Tree tree) {
            return line(positions.getEndPosition(unit, tree));
        }

        private long line(long position) {
            return unit.getLineMap().getLineNumber(position);
        }
    }
}
