package stepinto.probe.stops;

import com.sun.jdi.Location;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.program.Program;
import stepinto.probe.program.Stack;
import stepinto.probe.program.Variables;
import stepinto.probe.stops.BreakpointTable.Breakpoint;

/**
 * Exceptions of tasks that a future keeps until the program asks for the task's result.
 *
 * <p>The program has not handled one if it never asks, which is known only at the end. It asks if
 * the exception is raised once more, or as the cause of another.
 */
public final class KeptExceptions {
    private static final String TASK = "java.util.concurrent.FutureTask";
    /** The classes that keep one, and the beginnings of the names of those inside them. */
    private static final List<String> KEEPERS =
            Arrays.asList(
                    TASK,
                    "java.util.concurrent.CompletableFuture",
                    "java.util.concurrent.ForkJoinTask");
    private static final int MOST = 1000;
    private static final int MOST_NOTES = 10;
    private static final int MOST_CAUSES = 10;
    private final Program program;
    private final TestRun test;
    private final Map<Long, Kept> kept = new LinkedHashMap<>();

    public KeptExceptions(Program program, TestRun test) {
        this.program = program;
        this.test = test;
    }

    /** The class of the future that catches an exception; null if none does. */
    public static String keeper(Escape escape) {
        String catcher = escape.foreignCatcher();
        for (String each : KEEPERS) {
            if (catcher.equals(each) || catcher.startsWith(each + "$")) {
                return each;
            }
        }
        return null;
    }

    /** A future keeps one that is a hit of a breakpoint if nothing asks for it. */
    public void add(Escape escape, String keeper, Breakpoint point) {
        if (kept.size() < MOST) {
            long id = escape.exception.uniqueID();
            kept.computeIfAbsent(id, each -> new Kept(text(escape), keeper)).points.add(point);
        }
    }

    private String text(Escape escape) {
        List<Location> shown = new Stack(escape.thread, program).places;
        Location place = shown.isEmpty() ? escape.thrown : shown.get(0);
        return escape.exception.referenceType().name() + ", raised at "
                + program.sources.relative(program.path(place)) + ":"
                + place.lineNumber() + " in thread " + escape.thread.name();
    }

    /** An exception was raised: whoever asked for a result may have got it, or its cause. */
    public void onRaised(ObjectReference exception) {
        ObjectReference raised = exception;
        for (int depth = 0; !kept.isEmpty() && raised != null && depth < MOST_CAUSES; depth++) {
            kept.remove(raised.uniqueID());
            Value cause = Variables.field(raised, "cause");
            raised = cause instanceof ObjectReference ? (ObjectReference) cause : null;
        }
    }

    /** The program has ended: count those that nothing asked for; notes tell which. */
    public void onDeath(List<String> notes) {
        List<String> found = new ArrayList<>();
        boolean watched = test.watchesCaught(TASK);
        for (Kept each : kept.values()) {
            boolean known = watched && each.keeper.equals(TASK);
            for (Breakpoint point : each.points) {
                if (point.removed) {
                    continue;
                }
                point.hits += known ? 1 : 0;
                found.add("breakpoint " + point.number + (known ? " counts " : " does not count ")
                        + each.text + ": " + each.keeper + " kept it, and "
                        + (known ? "nothing asked for the task's result"
                                : "it is not known whether the program handled it"));
            }
        }
        kept.clear();
        notes.addAll(found.subList(0, Math.min(found.size(), MOST_NOTES)));
        if (found.size() > MOST_NOTES) {
            notes.add((found.size() - MOST_NOTES) + " more exceptions were kept by futures");
        }
    }

    private static final class Kept {
        final String text;
        final String keeper;
        final List<Breakpoint> points = new ArrayList<>();

        Kept(String text, String keeper) {
            this.text = text;
            this.keeper = keeper;
        }
    }
}
