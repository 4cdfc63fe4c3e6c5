package stepinto.probe;

import com.sun.jdi.Location;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ThreadReference;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.program.Named;
import stepinto.probe.program.Program;
import stepinto.probe.program.Stack;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.Rendered;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.stops.BreakpointTable;
import stepinto.probe.wire.Limits;

/** Puts places, values and stops into the fields of an answer, within the launch's limits. */
final class Describer {
    private static final int LINE_CHARS = 200;
    private static final int NUMBER_WIDTH = 5;
    private final Program program;
    private final BreakpointTable table;
    private final ValueText values;
    private final Limits limits;
    /** The thread whose name is not shown: it runs the test or {@code main}. */
    private ThreadReference main;

    Describer(Program program, BreakpointTable table, ValueText values, Limits limits) {
        this.program = program;
        this.table = table;
        this.values = values;
        this.limits = limits;
    }

    void mainIs(ThreadReference thread) {
        main = thread;
    }

    boolean isMain(ThreadReference thread) {
        return thread.equals(main);
    }

    Map<String, Object> stop(Stop stop, Stack stack) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("reason", stop.reason);
        fields.put("depth", stack.size());
        fields.put("thread", isMain(stop.thread) ? null : stop.thread.name());
        if (!stack.isEmpty()) {
            Location place = stack.places.get(0);
            place(place, fields);
            fields.put("source", context(place));
        }
        if (stop.exception != null) {
            fields.put("exception", exception(stop.exception));
        }
        if (stop.left != null) {
            fields.put("return_value", value(new Named(stop.left, null, stop.returned)));
        }
        return fields;
    }

    private Map<String, Object> exception(ObjectReference exception) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("type", exception.referenceType().name());
        String message = values.message(exception);
        fields.put("message", message == null ? "" : message);
        return fields;
    }

    /** A page of frames from {@code start} outwards. */
    Map<String, Object> stack(Stack stack, int start) {
        Map<String, Object> fields = new LinkedHashMap<>();
        int end = Math.min(start + limits.maxFrames, stack.size());
        fields.put("frames", frames(stack, start, end));
        if (end < stack.size()) {
            fields.put("next_start", end);
            List<Object> notes = new ArrayList<>();
            notes.add((stack.size() - end) + " outer frames are not shown");
            fields.put("notes", notes);
        }
        return fields;
    }

    List<Object> frames(Stack stack, int start, int end) {
        List<Object> shown = new ArrayList<>();
        for (int index = start; index < end; index++) {
            Map<String, Object> frame = new LinkedHashMap<>();
            Location place = stack.places.get(index);
            frame.put("index", index);
            place(place, frame);
            frame.put("source", program.sources.line(program.path(place), place.lineNumber()));
            shown.add(frame);
        }
        return shown;
    }

    private void place(Location place, Map<String, Object> fields) {
        fields.put("file", program.sources.relative(program.path(place)));
        fields.put("line", place.lineNumber());
        fields.put("function", Program.function(place));
    }

    /** As many values as the limits allow, from {@code start} on. */
    Map<String, Object> values(List<Named> items, int start, int total) {
        Map<String, Object> fields = new LinkedHashMap<>();
        List<Object> shown = new ArrayList<>();
        for (Named item : items.subList(0, Math.min(items.size(), limits.maxValues))) {
            shown.add(value(item));
        }
        fields.put("values", shown);
        int next = start + shown.size();
        if (next < total) {
            fields.put("next_start", next);
            List<Object> notes = new ArrayList<>();
            notes.add(shown.size() + " of " + total + " shown");
            fields.put("notes", notes);
        }
        return fields;
    }

    Map<String, Object> value(Named item) {
        return value(item, values.render(item.value));
    }

    Map<String, Object> value(Named item, Rendered text) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("name", item.name);
        fields.put("type", TypeNames.of(item.value, item.declared));
        fields.put("text", text.text);
        fields.put("truncated", text.truncated);
        return fields;
    }

    /** Numbered lines around a stop: {@code ->} marks the current one, {@code *} a breakpoint. */
    private List<Object> context(Location place) {
        String path = program.path(place);
        String[] lines = program.sources.lines(path);
        int current = place.lineNumber();
        List<Object> shown = new ArrayList<>();
        int first = Math.max(current - limits.contextLines, 1);
        int last = Math.min(current + limits.contextLines, lines.length);
        for (int line = first; line <= last; line++) {
            StringBuilder text = new StringBuilder(line == current ? "-> " : "   ");
            text.append(table.watches(path, line) ? "* " : "  ");
            String number = Integer.toString(line);
            for (int blank = number.length(); blank < NUMBER_WIDTH; blank++) {
                text.append(' ');
            }
            text.append(number).append("  ").append(clean(lines[line - 1]));
            shown.add(text.toString());
        }
        return shown;
    }

    /** Without what a terminal would obey, bounded, and without blanks at its end. */
    private static String clean(String line) {
        StringBuilder text = new StringBuilder();
        int last = 0;
        for (int at = 0; at < Math.min(line.length(), LINE_CHARS); at++) {
            char letter = line.charAt(at);
            if (letter != '\t' && Character.isISOControl(letter)) {
                text.append("\\x").append(Character.forDigit(letter >> 4, 16));
                text.append(Character.forDigit(letter & 15, 16));
            } else {
                text.append(letter);
            }
            last = letter > ' ' ? text.length() : last;
        }
        text.setLength(last);
        return text.toString();
    }
}
