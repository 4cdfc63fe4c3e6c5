package stepinto.probe.evaluation;

import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.TypeComponent;
import java.util.*;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.SourceTypes;

/**
 * Rewrites code so that it means the same in a class of its own: {@code this}, and the members that
 * it names without an owner, get one.
 */
final class SnippetNames {
    private static final List<String> AFTER_DECLARED = Arrays.asList("=", ";", ",", ":", ")", "->");

    private final List<Token> tokens;
    private final String source;
    private final List<Scope.Level> levels;
    private final Types types;
    private final Set<String> declared = new HashSet<>();

    /** Names that the code assigns, the frame's or its own. */
    final Set<String> assigned = new HashSet<>();

    final Set<String> used = new HashSet<>();

    /** @param locals names that need no owner */
    SnippetNames(String source, List<Scope.Level> levels, Set<String> locals, Types types)
            throws EvaluationFailed {
        this.types = types;
        this.source = source;
        this.tokens = Lexer.tokens(source);
        this.levels = levels;
        declared.addAll(locals);
        for (int at = 0; at < tokens.size(); at++) {
            if (tokens.get(at).kind == Token.Kind.NAME) {
                used.add(tokens.get(at).text);
                look(at);
            }
        }
    }

    private Token token(int at) {
        return at < 0 ? new Token(Token.Kind.END, "", null, 0)
                : tokens.get(Math.min(at, tokens.size() - 1));
    }

    private void look(int at) {
        Token before = token(at - 1);
        Token after = token(at + 1);
        boolean typed = isTyped(at);
        if (after.is("->") || inLambdaHead(at)
                || (typed && AFTER_DECLARED.contains(after.text))) {
            declared.add(token(at).text);
        }
        boolean steps = before.is("++") || before.is("--") || after.is("++") || after.is("--");
        boolean shifts = after.is(">") && token(at + 2).is(">")
                && (token(at + 3).is("=") || token(at + 4).is("="));
        boolean assigns = after.kind == Token.Kind.OPERATOR && after.text.endsWith("=")
                && !Arrays.asList("==", "!=", "<=").contains(after.text);
        if (steps || assigns || shifts) {
            assigned.add(token(at).text);
        }
    }

    /** Whether a type stands before a name, as where it is declared. */
    private boolean isTyped(int at) {
        Token before = token(at - 1);
        boolean primitive =
                before.kind == Token.Kind.KEYWORD && Primitives.isPrimitive(before.text);
        return primitive || before.kind == Token.Kind.NAME || closesArguments(at - 1)
                || before.is("]") || before.is("...");
    }

    /** Whether a token is the end of type arguments, and no comparison. */
    private boolean closesArguments(int end) {
        int depth = 0;
        for (int at = end; at > 0; at--) {
            Token token = token(at);
            boolean fits = token.kind == Token.Kind.NAME || token.kind == Token.Kind.KEYWORD
                    || Arrays.asList("<", ">", ",", ".", "?", "[", "]", "&").contains(token.text);
            depth += token.is(">") ? 1 : token.is("<") ? -1 : 0;
            if (!fits || depth == 0) {
                return fits && at < end;
            }
        }
        return false;
    }

    /** Among the names in {@code (a, b) ->}. */
    private boolean inLambdaHead(int at) {
        int start = at;
        while (token(start - 1).is(",") && token(start - 2).kind == Token.Kind.NAME) {
            start -= 2;
        }
        int end = at;
        while (token(end + 1).is(",") && token(end + 2).kind == Token.Kind.NAME) {
            end += 2;
        }
        return token(start - 1).is("(") && token(end + 1).is(")") && token(end + 2).is("->");
    }

    /** The code with owners. */
    String rewritten() {
        StringBuilder text = new StringBuilder();
        int copied = 0;
        for (int at = 0; at < tokens.size(); at++) {
            Token token = tokens.get(at);
            String outer = outerThis(at);
            if (outer != null) {
                text.append(source, copied, token.start).append(outer);
                at += 2;
                copied = tokens.get(at).start + tokens.get(at).text.length();
                continue;
            }
            String owner = owner(at);
            if (owner == null) {
                continue;
            }
            text.append(source, copied, token.start).append(owner);
            copied = token.start + (token.is("this") ? token.text.length() : 0);
        }
        return text.append(source.substring(copied)).toString();
    }

    /** The parameter that stands for {@code Outer.this} here; null if there is none. */
    private String outerThis(int at) {
        boolean fits = tokens.get(at).kind == Token.Kind.NAME
                && token(at + 1).is(".") && token(at + 2).is("this") && !token(at - 1).is(".");
        for (int level = 0; fits && level < levels.size(); level++) {
            String name = levels.get(level).type.name();
            boolean named = SourceTypes.dotted(name).endsWith("." + token(at).text)
                    || name.equals(token(at).text);
            if (named && levels.get(level).instance != null) {
                return instance(level);
            }
        }
        return null;
    }

    /** Whether a name is a label of a switch: a constant whose enum is known without a name. */
    private boolean isCase(int at) {
        int first = at;
        while (token(first - 1).is(",") && token(first - 2).kind == Token.Kind.NAME) {
            first -= 2;
        }
        return token(first - 1).is("case");
    }

    /** What to write before a name, or in place of {@code this}; null for nothing. */
    private String owner(int at) {
        Token token = tokens.get(at);
        boolean qualified = token(at - 1).is(".") || token(at - 1).is("::");
        if (token.is("this")) {
            return qualified ? null : instance(0);
        }
        if (token.kind != Token.Kind.NAME || qualified) {
            return null;
        }
        String type = ofClass(token.text);
        boolean owned = type != null || token(at - 1).is("new") || token(at - 1).is("@")
                || isCase(at);
        if (owned) {
            return isCase(at) ? null : type;
        }
        boolean call = token(at + 1).is("(");
        boolean declaration = call && isTyped(at);
        boolean none = declaration || !call && declared.contains(token.text);
        return none ? null : ofMember(token.text, call);
    }

    /** Nested classes of a package are imported; those without a package can't be. */
    private String ofClass(String name) {
        boolean mayBe = Character.isUpperCase(name.charAt(0)) && !declared.contains(name);
        for (int level = 0; mayBe && level < levels.size(); level++) {
            ReferenceType outer = levels.get(level).type;
            boolean imported = outer.name().indexOf('.') >= 0;
            if (!imported && types.find(outer.name() + "$" + name, outer) != null) {
                return type(level) + ".";
            }
        }
        return null;
    }

    /** A method or a field of the class, or of one around it. */
    private String ofMember(String name, boolean call) {
        for (int level = 0; level < levels.size(); level++) {
            Scope.Level each = levels.get(level);
            List<Method> methods =
                    call ? Overloads.named(each.type, name) : Collections.<Method>emptyList();
            TypeComponent member = !call ? each.type.fieldByName(name)
                    : methods.isEmpty() ? null : methods.get(0);
            if (member != null && (call || member.isStatic() || each.instance != null)) {
                boolean instance = !member.isStatic() && each.instance != null;
                return (instance ? instance(level) : type(level)) + ".";
            }
        }
        return null;
    }

    private String instance(int level) {
        used.add(parameter(level));
        return parameter(level);
    }

    static String parameter(int level) {
        return "this$" + level;
    }

    private String type(int level) {
        return SourceTypes.dotted(levels.get(level).type.name());
    }
}
